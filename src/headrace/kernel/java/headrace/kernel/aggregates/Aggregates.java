package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.SortedBag;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;

/** The aggregates of an operator, over one {@link Accumulator} a group. */
public final class Aggregates implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Aggregate[] all;
  private final int lanes;
  private final int cells;

  /** `firstInput` is the field of the rows at which the inputs of the aggregates begin. */
  public Aggregates(List<Declared> declared, int firstInput) {
    ArrayList<Aggregate> made = new ArrayList<>();
    int lane = 0, cell = 0;
    for (Declared one : declared) {
      Aggregate aggregate = Functions.of(one, made.size(), firstInput);
      aggregate.lane = lane;
      aggregate.cell = cell;
      lane += aggregate.lanes();
      cell += aggregate.cells();
      made.add(aggregate);
    }
    all = made.toArray(Aggregate[]::new);
    lanes = lane;
    cells = cell;
  }

  int size() {
    return all.length;
  }

  public Accumulator empty() {
    return new Accumulator(lanes, cells);
  }

  public void add(Accumulator to, InternalRow row, long at) {
    for (Aggregate one : all) one.add(to, row, at);
  }

  /** Whether rows can be taken out again. */
  public boolean takesOut() {
    for (Aggregate one : all) if (!one.takesOut()) return false;
    return true;
  }

  public void remove(Accumulator from, InternalRow row) {
    for (Aggregate one : all) one.remove(from, row);
  }

  public void merge(Accumulator to, Accumulator from) {
    for (Aggregate one : all) one.merge(to, from);
  }

  /** Whether nothing is left of what was gathered. */
  public boolean isClear(Accumulator of) {
    for (long value : of.lanes) if (value != 0) return false;
    for (Aggregate one : all) if (!one.isClear(of)) return false;
    return true;
  }

  /** Says where the pages of what was read are. */
  public void attach(Accumulator of, SortedBag.Pages pages) {
    for (Aggregate one : all) one.attach(of, pages);
  }

  /** Puts the pages that have changed there; before what was gathered is written. */
  public void save(Accumulator of, SortedBag.Pages pages) {
    for (Aggregate one : all) one.save(of, pages);
  }

  /** What lies in the pages of an aggregate. */
  public SortedBag.Items<?> items(int number) {
    return all[number].items();
  }

  /** The results, into `out` from `start` on. */
  public void results(Accumulator of, Object[] out, int start) {
    for (int i = 0; i < all.length; i++) out[start + i] = all[i].result(of);
  }

  public void write(Accumulator from, ByteSink out) {
    for (long value : from.lanes) out.putLong(value);
    for (Aggregate one : all) one.write(from, out);
  }

  public Accumulator read(ByteBuffer in) {
    Accumulator made = empty();
    for (int i = 0; i < lanes; i++) made.lanes[i] = in.getLong();
    for (Aggregate one : all) one.read(made, in);
    return made;
  }
}
