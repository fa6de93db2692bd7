package headrace.kernel.spark;

import headrace.kernel.time.BatchWatermark;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper;
import org.apache.spark.sql.streaming.StreamingQuery;
import scala.Option;

/**
 * The watermark that Spark has recorded for the batch of a running query, looked up on the driver.
 */
final class RecordedWatermark extends BatchWatermark {
  private static final long serialVersionUID = 1L;

  private final String query;
  private final transient SparkSession session;

  RecordedWatermark(String query, SparkSession session) {
    this.query = query;
    this.session = session;
  }

  @Override
  protected Recorded look() {
    if (session == null) return null;
    Recorded found = new Recorded(UNKNOWN, Long.MIN_VALUE);
    for (StreamingQuery running : session.streams().active()) {
      if (!query.equals(running.name())) continue;
      IncrementalExecution execution =
          ((StreamingQueryWrapper) running).streamingQuery().lastExecution();
      if (execution == null) continue;
      Option<OffsetSeqMetadataBase> last = execution.prevOffsetSeqMetadata();
      long before = last.isDefined() ? last.get().batchWatermarkMs() * 1000 : Long.MIN_VALUE;
      found = new Recorded(execution.offsetSeqMetadata().batchWatermarkMs() * 1000, before);
    }
    return found;
  }
}
