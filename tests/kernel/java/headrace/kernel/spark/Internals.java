package headrace.kernel.spark;

import headrace.kernel.run.Batch;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.regex.Pattern;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.FieldVisitor;
import org.apache.xbean.asm9.Handle;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;
import org.apache.xbean.asm9.Type;

/**
 * What of Spark's internals the rooms `spark` and `compiler` rely on.
 *
 * <p>`list` and the kernel's jar: prints each, a line each: a class, a field or method that is
 * used, a method that is overridden, a private field that is reached by reflection, a text that a
 * class has. `check` and a file of such lines: prints those that the Spark on the class path does
 * not have.
 */
public final class Internals {
  private static final String ROOM = "headrace/kernel/spark/";
  private static final Pattern ROOMS =
      Pattern.compile("headrace/kernel/(spark|compiler)/(?!Internals).*\\.class");

  /** What Spark promises to keep. */
  private static final Pattern PUBLIC =
      Pattern.compile(
          "org/apache/spark/(SparkContext|SparkConf|api/.*|unsafe/.*|sql/("
              + "Column|Dataset|Encoder|Encoders|KeyValueGroupedDataset|RelationalGroupedDataset|Row|RuntimeConfig|SparkSession"
              + "|functions|connector/.*|streaming/.*|types/.*|util/.*))(\\$.*)?");

  private final TreeSet<String> found = new TreeSet<>();

  private Internals() {}

  public static void main(String[] arguments) throws IOException {
    if (arguments[0].equals("check")) {
      for (String line : Files.readAllLines(Path.of(arguments[1]))) {
        if (!line.startsWith("#") && !isThere(line)) System.out.println(line);
      }
      return;
    }
    Internals all = new Internals();
    try (JarFile jar = new JarFile(arguments[1])) {
      for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
        JarEntry entry = entries.nextElement();
        String name = entry.getName();
        // This class is compiled with the kernel, and is not of it.
        if (!ROOMS.matcher(name).matches()) continue;
        try (InputStream in = jar.getInputStream(entry)) {
          new ClassReader(in).accept(all.new Looked(), 0);
        }
      }
    }
    String queries = "text org.apache.spark.sql.execution.streaming.runtime.";
    all.found.add(queries + "StreamExecution$ " + Batch.QUERY);
    all.found.add(queries + "MicroBatchExecution$ " + Batch.NUMBER);
    all.found.forEach(System.out::println);
  }

  private static boolean isInternal(String owner) {
    return owner.startsWith("org/apache/spark/") && !PUBLIC.matcher(owner).matches();
  }

  private void use(String owner) {
    if (isInternal(owner)) found.add("class " + owner.replace('/', '.'));
  }

  private void use(Type type) {
    if (type.getSort() == Type.ARRAY) use(type.getElementType());
    if (type.getSort() == Type.OBJECT) use(type.getInternalName());
  }

  private void use(String owner, String name, String type) {
    if (isInternal(owner)) found.add("method " + owner.replace('/', '.') + " " + name + type);
  }

  /** A class of the room. */
  private final class Looked extends ClassVisitor {
    private String[] parents = {};

    Looked() {
      super(Opcodes.ASM9);
    }

    @Override
    public void visit(
        int version,
        int access,
        String name,
        String signature,
        String parent,
        String[] interfaces) {
      parents = new String[interfaces.length + 1];
      parents[0] = parent;
      System.arraycopy(interfaces, 0, parents, 1, interfaces.length);
      for (String one : parents) use(one);
    }

    @Override
    public FieldVisitor visitField(
        int access, String name, String type, String signature, Object value) {
      use(Type.getType(type));
      return null;
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String type, String signature, String[] throwing) {
      for (String parent : parents) {
        if (!name.startsWith("<") && isInternal(parent) && isInherited(parent, name + type))
          use(parent, name, type);
      }
      return new Read();
    }
  }

  /** The code of a method. */
  private final class Read extends MethodVisitor {
    private Type ofClass;
    private String text;

    Read() {
      super(Opcodes.ASM9);
    }

    @Override
    public void visitLdcInsn(Object value) {
      if (value instanceof Type type) use(ofClass = type);
      if (!(value instanceof String constant)) return;
      text = constant;
      if (!constant.startsWith("org.apache.spark.") || constant.endsWith(".")) return;
      use(constant.replace('.', '/'));
      for (String member : constructors(constant.replace('.', '/'))) {
        use(constant.replace('.', '/'), "<init>", member.substring("<init>".length()));
      }
    }

    @Override
    public void visitTypeInsn(int code, String type) {
      use(Type.getObjectType(type));
    }

    @Override
    public void visitFieldInsn(int code, String owner, String name, String type) {
      if (isInternal(owner)) found.add("field " + owner.replace('/', '.') + " " + name);
    }

    @Override
    public void visitMethodInsn(
        int code, String owner, String name, String type, boolean isInterface) {
      use(owner, name, type);
      if (owner.equals(ROOM + "Reflected") && name.equals("field"))
        found.add("field " + ofClass.getClassName() + " " + text);
    }

    @Override
    public void visitInvokeDynamicInsn(
        String name, String type, Handle bootstrap, Object... arguments) {
      for (Object one : arguments)
        if (one instanceof Handle handle)
          use(handle.getOwner(), handle.getName(), handle.getDesc());
    }
  }

  private static boolean isInherited(String parent, String member) {
    try {
      return has(parent, member);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static List<String> constructors(String of) {
    try {
      Spark found = Spark.of(of);
      return found == null
          ? List.of()
          : found.members.stream().filter(one -> one.startsWith("<init>")).toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static boolean isThere(String line) throws IOException {
    String[] words = line.split(" ", 3);
    String of = words[1].replace('.', '/');
    if (words[0].equals("class")) return Spark.of(of) != null;
    return has(of, words[0].equals("text") ? '"' + words[2] + '"' : words[2]);
  }

  /**
   * Whether a class has a field of this name or a method of this name and type, or what it comes
   * from has.
   */
  private static boolean has(String owner, String member) throws IOException {
    Spark of = owner == null ? null : Spark.of(owner);
    if (of == null) return false;
    if (of.members.contains(member)) return true;
    for (String one : of.parents) if (!member.startsWith("<init>") && has(one, member)) return true;
    return false;
  }

  /**
   * A class on the class path, read and not loaded: what its members are made of need not be there.
   */
  private static final class Spark extends ClassVisitor {
    final TreeSet<String> members = new TreeSet<>();
    final ArrayList<String> parents = new ArrayList<>();

    private Spark() {
      super(Opcodes.ASM9);
    }

    /** Null when there is none of this name. */
    static Spark of(String name) throws IOException {
      try (InputStream in = ClassLoader.getSystemResourceAsStream(name + ".class")) {
        if (in == null) return null;
        Spark found = new Spark();
        new ClassReader(in).accept(found, 0);
        return found;
      }
    }

    @Override
    public void visit(
        int version,
        int access,
        String name,
        String signature,
        String parent,
        String[] interfaces) {
      if (parent != null) parents.add(parent);
      parents.addAll(List.of(interfaces));
    }

    @Override
    public FieldVisitor visitField(
        int access, String name, String type, String signature, Object value) {
      members.add(name);
      return null;
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String type, String signature, String[] throwing) {
      members.add(name + type);
      return new MethodVisitor(Opcodes.ASM9) {
        @Override
        public void visitLdcInsn(Object value) {
          if (value instanceof String text) members.add('"' + text + '"');
        }
      };
    }
  }
}
