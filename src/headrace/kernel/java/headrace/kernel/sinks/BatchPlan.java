package headrace.kernel.sinks;

import headrace.kernel.run.Batch;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;

/**
 * What a batch is to read and by which clock, in sixteen letters: the beginning of the SHA-256 of
 * the file that Spark has written to `offsets` of the checkpoint before the batch.
 *
 * <p>A batch that is run again has the same file. A checkpoint that was restored from an older copy
 * makes another one for a batch of the same number: it has other offsets, or at least another time.
 */
final class BatchPlan {
  private static final String PROPERTY = "headrace.plan";
  private static final int BYTES = 8;

  private BatchPlan() {}

  /** That of the batch that a task is of. */
  static String of(TaskContext task) {
    return task.getLocalProperty(PROPERTY);
  }

  /**
   * Tell the tasks that are started from this thread next, in the driver, of the batch that begins.
   */
  static void tell(String checkpoint) {
    SparkContext spark = SparkContext.getOrCreate();
    Path file = new Path(new Path(checkpoint, "offsets"), String.valueOf(Batch.number(spark)));
    try (InputStream in = file.getFileSystem(spark.hadoopConfiguration()).open(file)) {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(in.readAllBytes());
      spark.setLocalProperty(PROPERTY, HexFormat.of().formatHex(digest, 0, BYTES));
    } catch (IOException error) {
      throw new UncheckedIOException("the plan of a batch cannot be read: " + file, error);
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }
}
