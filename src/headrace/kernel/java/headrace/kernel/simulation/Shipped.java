package headrace.kernel.simulation;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.UncheckedIOException;

/** An object of the driver on its way to the tasks: each makes one of its own of the same bytes. */
final class Shipped<T> {
  private final byte[] bytes;

  Shipped(T object) {
    ByteArrayOutputStream to = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(to)) {
      out.writeObject(object);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    bytes = to.toByteArray();
  }

  @SuppressWarnings("unchecked")
  T unpacked() {
    try (ObjectInputStream in = new Reader(bytes)) {
      return (T) in.readObject();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (ClassNotFoundException e) {
      throw new IllegalStateException(e);
    }
  }

  private static final class Reader extends ObjectInputStream {
    Reader(byte[] bytes) throws IOException {
      super(new ByteArrayInputStream(bytes));
    }

    @Override
    protected Class<?> resolveClass(ObjectStreamClass of)
        throws IOException, ClassNotFoundException {
      try {
        return Class.forName(of.getName(), false, Shipped.class.getClassLoader());
      } catch (ClassNotFoundException e) {
        return super.resolveClass(of); // the primitive types
      }
    }
  }
}
