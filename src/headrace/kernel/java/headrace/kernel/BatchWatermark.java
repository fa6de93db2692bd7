package headrace.kernel;

import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;

/**
 * The recorded watermark of the batch that a task belongs to, for tasks to which Spark does not tell it.
 *
 * <p>Tasks are made ready on the driver once a batch, and what they carry is written out then; that is when it is looked up.
 */
final class BatchWatermark implements Serializable {
  private static final long serialVersionUID = 1L;
  /** When it is not known. */
  static final long UNKNOWN = Long.MAX_VALUE;

  private final String query;
  private final transient SparkSession session;
  private transient long micros = UNKNOWN;
  private transient long before = Long.MIN_VALUE;

  BatchWatermark(String query, SparkSession session) {
    this.query = query;
    this.session = session;
  }

  long micros() {
    return micros;
  }

  /** That of the batch before, or Long.MIN_VALUE. */
  long before() {
    return before;
  }

  private void writeObject(ObjectOutputStream out) throws IOException {
    if (session != null) look();
    out.defaultWriteObject();
    out.writeLong(micros);
    out.writeLong(before);
  }

  private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
    in.defaultReadObject();
    micros = in.readLong();
    before = in.readLong();
  }

  private void look() {
    micros = UNKNOWN;
    before = Long.MIN_VALUE;
    for (StreamingQuery running : session.streams().active()) {
      if (!query.equals(running.name())) continue;
      IncrementalExecution execution = ((StreamingQueryWrapper) running).streamingQuery().lastExecution();
      if (execution == null) continue;
      micros = execution.offsetSeqMetadata().batchWatermarkMs() * 1000;
      Option<OffsetSeqMetadataBase> last = execution.prevOffsetSeqMetadata();
      if (last.isDefined()) before = last.get().batchWatermarkMs() * 1000;
    }
  }
}
