package headrace.kernel.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of checkpoints, as Spark writes them by itself, without a process of its own for each.
 *
 * <p>Hadoop starts a `chmod` for every file and directory that it makes on a local disk, where its
 * native library is missing, as it is beside PySpark: dozens in a batch, and milliseconds each.
 * Here the permissions are set with a call of the system. And the file system that PySpark takes
 * for local files, Hive's, leaves the old file where one is to be replaced; Hadoop's does not.
 */
public final class LocalCheckpoints extends FileSystemBasedCheckpointFileManager {
  /** Called by Spark. */
  public LocalCheckpoints(Path path, Configuration settings) {
    super(path, withOwnFiles(settings));
  }

  private static Configuration withOwnFiles(Configuration settings) {
    Configuration own = new Configuration(settings);
    own.setClassLoader(LocalCheckpoints.class.getClassLoader());
    own.setClass("fs.file.impl", LocalFiles.class, FileSystem.class);
    own.setBoolean("fs.file.impl.disable.cache", true);
    return own;
  }

  /** The local disk, with checksums beside the files. */
  public static final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
      super(new RawFiles());
    }

    /**
     * The checksum follows the file: of one that is replaced it goes first, so that it is never
     * beside another file.
     */
    @Override
    public boolean rename(Path from, Path to) throws IOException {
      getRawFileSystem().delete(getChecksumFile(to), false);
      return super.rename(from, to);
    }
  }

  private static final class RawFiles extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission wanted) throws IOException {
      if (wanted.getStickyBit() || !set(pathToFile(path).toPath(), wanted))
        super.setPermission(path, wanted);
    }

    /**
     * Whether it could be done here; of a directory this would take the group that it hands down,
     * and `chmod` does not.
     */
    private static boolean set(java.nio.file.Path file, FsPermission wanted) throws IOException {
      Set<PosixFilePermission> permissions = PosixFilePermissions.fromString(wanted.toString());
      try {
        if (Files.getPosixFilePermissions(file).equals(permissions)) return true;
        if (Files.isDirectory(file)) return false;
        Files.setPosixFilePermissions(file, permissions);
        return true;
      } catch (UnsupportedOperationException e) { // a disk without such permissions
        return false;
      }
    }
  }
}
