package headrace.kernel.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkEnv$;
import org.apache.spark.network.TransportContext;
import org.apache.spark.network.client.RpcResponseCallback;
import org.apache.spark.network.client.TransportClient;
import org.apache.spark.network.client.TransportClientBootstrap;
import org.apache.spark.network.client.TransportClientFactory;
import org.apache.spark.network.crypto.AuthClientBootstrap;
import org.apache.spark.network.crypto.AuthServerBootstrap;
import org.apache.spark.network.server.RpcHandler;
import org.apache.spark.network.server.StreamManager;
import org.apache.spark.network.server.TransportServer;
import org.apache.spark.network.server.TransportServerBootstrap;
import org.apache.spark.util.Utils$;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * Where the shuffle of live mode listens, and who may come in.
 *
 * <p>Each writing task of Spark's real-time shuffle opens a port of its own, on all interfaces, to
 * everybody who connects: there is no setting for it. Here it listens at the address that the
 * process is known by, which is the loopback one for a run on one machine, and with
 * `spark.authenticate` both ends have to know the secret, as on all other ports of Spark.
 *
 * <p>For that, the two calls with which Spark's classes open and find a port are led to {@link
 * #server} and {@link #clients} in copies of these classes, which only this shuffle uses. A version
 * of Spark without these calls is refused.
 */
public final class ShuffleDoor {
  private static final String SHUFFLE = "org.apache.spark.shuffle.streaming.";
  private static final String WRITER = SHUFFLE + "StreamingShuffleWriter";
  private static final String READER = SHUFFLE + "StreamingShuffleReader";
  private static final Constructor<?> WRITERS;
  private static final Constructor<?> READERS;

  static {
    try {
      Copies copies = new Copies(ShuffleDoor.class.getClassLoader());
      WRITERS = copies.loadClass(WRITER).getConstructors()[0];
      READERS = copies.loadClass(READER).getConstructors()[0];
    } catch (ClassNotFoundException e) {
      throw new IllegalStateException("this version of Spark shuffles otherwise", e);
    }
  }

  private ShuffleDoor() {}

  /** Spark's writer, behind this door. */
  static Object writer(Object... given) {
    return made(WRITERS, given);
  }

  /** Spark's reader, which knocks at it. */
  static Object reader(Object... given) {
    return made(READERS, given);
  }

  private static Object made(Constructor<?> of, Object... given) {
    try {
      return of.newInstance(given);
    } catch (InvocationTargetException e) {
      throw ShuffleDoor.<RuntimeException>same(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this version of Spark shuffles otherwise", e);
    }
  }

  /** What Spark throws, as it is, though the compiler does not see it. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E same(Throwable error) throws E {
    throw (E) error;
  }

  /** The port of a writing task; in the place of {@link TransportContext#createServer()}. */
  public static TransportServer server(TransportContext context) {
    SparkEnv spark = SparkEnv$.MODULE$.get();
    List<TransportServerBootstrap> door =
        spark.securityManager().isAuthenticationEnabled()
            ? List.of(new AuthServerBootstrap(context.getConf(), spark.securityManager()))
            : List.of();
    return context.createServer(address(spark), 0, door);
  }

  /** The way to it; in the place of {@link TransportContext#createClientFactory()}. */
  public static TransportClientFactory clients(TransportContext context) {
    SparkEnv spark = SparkEnv$.MODULE$.get();
    if (!spark.securityManager().isAuthenticationEnabled()) return context.createClientFactory();
    RpcHandler handler = (RpcHandler) Reflected.get(Reflected.RPC_HANDLER, context);
    List<TransportClientBootstrap> key =
        List.of(
            new AuthClientBootstrap(
                context.getConf(), spark.conf().getAppId(), spark.securityManager()));
    return new TransportClientFactory(
        new TransportContext(context.getConf(), new Patient(handler)), key) {
      @Override
      public TransportClient createClient(String host, int port)
          throws IOException, InterruptedException {
        TransportClient client = super.createClient(host, port);
        handler.channelActive(client);
        return client;
      }
    };
  }

  /**
   * The reader's handler, which greets when it is let in: Spark's does so at once, before it has
   * shown that it may.
   */
  private static final class Patient extends RpcHandler {
    private final RpcHandler handler;

    Patient(RpcHandler handler) {
      this.handler = handler;
    }

    @Override
    public void receive(TransportClient client, ByteBuffer message, RpcResponseCallback answer) {
      handler.receive(client, message, answer);
    }

    @Override
    public void receive(TransportClient client, ByteBuffer message) {
      handler.receive(client, message);
    }

    @Override
    public StreamManager getStreamManager() {
      return handler.getStreamManager();
    }

    @Override
    public void channelInactive(TransportClient client) {
      handler.channelInactive(client);
    }

    @Override
    public void exceptionCaught(Throwable error, TransportClient client) {
      handler.exceptionCaught(error, client);
    }
  }

  /**
   * Where this process listens for others: a driver where it was told to, an executor at the name
   * that others have for it.
   */
  private static String address(SparkEnv spark) {
    SparkConf conf = spark.conf();
    if ("driver".equals(spark.executorId()))
      return conf.get("spark.driver.bindAddress", conf.get("spark.driver.host"));
    return spark.rpcEnv().address() != null
        ? spark.rpcEnv().address().host()
        : Utils$.MODULE$.localCanonicalHostName();
  }

  /**
   * Spark's two classes and what is inside of them, with the calls led here; all else is that of
   * the parent.
   */
  private static final class Copies extends ClassLoader {
    Copies(ClassLoader parent) {
      super(parent);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      if (!name.startsWith(WRITER) && !name.startsWith(READER))
        return super.loadClass(name, resolve);
      synchronized (getClassLoadingLock(name)) {
        Class<?> known = findLoadedClass(name);
        return known != null ? known : defined(name);
      }
    }

    private Class<?> defined(String name) throws ClassNotFoundException {
      try (InputStream in = getParent().getResourceAsStream(name.replace('.', '/') + ".class")) {
        if (in == null) throw new ClassNotFoundException(name);
        ClassReader spark = new ClassReader(in);
        ClassWriter out = new ClassWriter(spark, 0);
        Led led = new Led(out);
        spark.accept(led, 0);
        if (led.calls == 0 && (name.equals(WRITER) || name.equals(READER)))
          throw new ClassNotFoundException(name + " with the calls of Spark 4.3");
        byte[] copy = out.toByteArray();
        return defineClass(name, copy, 0, copy.length);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  /** Leads the two calls here. */
  private static final class Led extends ClassVisitor {
    private static final String CONTEXT = TransportContext.class.getName().replace('.', '/');
    private static final String HERE = ShuffleDoor.class.getName().replace('.', '/');
    private int calls;

    Led(ClassVisitor out) {
      super(Opcodes.ASM9, out);
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String type, String signature, String[] throwing) {
      return new MethodVisitor(
          Opcodes.ASM9, super.visitMethod(access, name, type, signature, throwing)) {
        @Override
        public void visitMethodInsn(
            int call, String owner, String called, String type, boolean isInterface) {
          String here =
              !owner.equals(CONTEXT) || !type.startsWith("()")
                  ? null
                  : called.equals("createServer")
                      ? "server"
                      : called.equals("createClientFactory") ? "clients" : null;
          if (here == null) {
            super.visitMethodInsn(call, owner, called, type, isInterface);
          } else {
            calls++;
            super.visitMethodInsn(
                Opcodes.INVOKESTATIC, HERE, here, "(L" + CONTEXT + ";)" + type.substring(2), false);
          }
        }
      };
    }
  }
}
