package headrace.kernel.operators;

import headrace.kernel.meters.HotKeys;
import headrace.kernel.meters.Marker;
import headrace.kernel.run.Origin;
import headrace.kernel.state.ByteSink;
import headrace.kernel.time.BatchWatermark;
import headrace.kernel.time.SenderClock;
import java.util.ArrayDeque;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;

/**
 * Makes messages of the wrapped rows that a task reads.
 *
 * <p>In exact mode an operator may put rows together here ({@link OperatorOptions#gathered}). A row
 * that goes by itself takes the watermark of the batch before with it, by which the shard decides
 * what is late: what an operator gives when the watermark moves is not late for the next one in the
 * same batch. In live mode every row goes at once, with the watermark of this task, which all
 * shards are told now and then.
 */
public final class ShardInput implements MapPartitionsFunction<byte[], byte[]> {
  private static final long serialVersionUID = 1L;
  private static final long CLOCK_NANOS = 10_000_000;

  private final Operator operator;
  private final BatchWatermark watermark;
  private final boolean clockless;

  /**
   * Rows that are `clockless` are those of a table beside a stream: nobody is to wait for their
   * time.
   */
  public ShardInput(Operator operator, BatchWatermark watermark, boolean clockless) {
    this.operator = operator;
    this.watermark = watermark;
    this.clockless = clockless;
  }

  @Override
  public Iterator<byte[]> call(Iterator<byte[]> rows) {
    Iterator<byte[]> messages = messages(rows);
    return operator.live ? messages : new MessagePackets(messages);
  }

  private Iterator<byte[]> messages(Iterator<byte[]> rows) {
    Iterator<byte[]> gathered =
        operator.origins ? null : operator.options.gathered(operator, watermark, rows);
    return gathered == null ? new Sent(rows) : gathered;
  }

  /** Each row by itself. */
  private final class Sent implements Iterator<byte[]> {
    private final Iterator<byte[]> rows;
    private final ArrayDeque<byte[]> clocks = new ArrayDeque<>();
    private final int sender = TaskContext.getPartitionId();
    private final int senders = TaskContext.get().numPartitions();
    private final Marker.Sender marking =
        new Marker.Sender(operator.late.query(), operator.late.operator());
    private final SenderClock own = new SenderClock(operator.delay, operator.many);
    private final HotKeys.Sample sample = operator.sample();
    private long told = SenderClock.UNKNOWN;
    private long toldAt;
    private boolean ended;

    Sent(Iterator<byte[]> rows) {
      this.rows = rows;
      if (operator.live && clockless) tell(SenderClock.NONE);
    }

    @Override
    public boolean hasNext() {
      if (!clocks.isEmpty() || rows.hasNext()) return true;
      if (ended || clockless || !operator.live || !operator.chained) return false;
      ended = true;
      tell(reached());
      return true;
    }

    /**
     * What has passed at the end of a batch: an operator that was asked has done all until its
     * clock, others all there was.
     */
    private long reached() {
      long batch = watermark.micros(), before = Origin.current().reached();
      return batch == BatchWatermark.UNKNOWN ? before : Math.max(batch, before);
    }

    @Override
    public byte[] next() {
      if (!clocks.isEmpty()) return clocks.poll();
      byte[] wrapped = rows.next();
      if (sample != null && sample.isNext()) sample.note(WrappedRow.key(wrapped));
      if (!operator.live)
        return WrappedRow.message(wrapped, operator, 0, sender, senders, watermark.before());
      long clock = own.with(WrappedRow.time(wrapped));
      if (clock > told && System.nanoTime() - toldAt > CLOCK_NANOS) tell(clock);
      return WrappedRow.message(wrapped, operator, marking.next(), sender, senders, clock);
    }

    private void tell(long clock) {
      told = clock;
      toldAt = System.nanoTime();
      for (int shard : operator.shards) {
        clocks.add(
            new ByteSink(32)
                .put(Message.CLOCK)
                .putInt(shard)
                .putInt(sender)
                .putInt(senders)
                .putLong(clock)
                .bytes());
      }
    }
  }
}
