package headrace.kernel;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.InternalRow;

/** The aggregates of an operator, over one {@link Accumulator} a group. */
final class Aggregates implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Aggregate[] all;
  private final int lanes;
  private final int cells;

  /** `firstInput` is the field of the rows at which the inputs of the aggregates begin. */
  Aggregates(JsonNode declared, int firstInput) {
    ArrayList<Aggregate> made = new ArrayList<>();
    int lane = 0, cell = 0;
    for (JsonNode one : declared) {
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

  Accumulator empty() {
    return new Accumulator(lanes, cells);
  }

  void add(Accumulator to, InternalRow row, long at) {
    for (Aggregate one : all) one.add(to, row, at);
  }

  /** Whether rows can be taken out again. */
  boolean takesOut() {
    for (Aggregate one : all) if (!one.takesOut()) return false;
    return true;
  }

  void remove(Accumulator from, InternalRow row) {
    for (Aggregate one : all) one.remove(from, row);
  }

  void merge(Accumulator to, Accumulator from) {
    for (Aggregate one : all) one.merge(to, from);
  }

  /** Whether nothing is left of what was gathered. */
  boolean isClear(Accumulator of) {
    for (long value : of.lanes) if (value != 0) return false;
    for (Aggregate one : all) if (!one.isClear(of)) return false;
    return true;
  }

  /** Says where the pages of what was read are. */
  void attach(Accumulator of, SortedBag.Pages pages) {
    for (Aggregate one : all) one.attach(of, pages);
  }

  /** Puts the pages that have changed there; before what was gathered is written. */
  void save(Accumulator of, SortedBag.Pages pages) {
    for (Aggregate one : all) one.save(of, pages);
  }

  /** What lies in the pages of an aggregate. */
  SortedBag.Items<?> items(int number) {
    return all[number].items();
  }

  /** The results, into `out` from `start` on. */
  void results(Accumulator of, Object[] out, int start) {
    for (int i = 0; i < all.length; i++) out[start + i] = all[i].result(of);
  }

  void write(Accumulator from, ByteSink out) {
    for (long value : from.lanes) out.putLong(value);
    for (Aggregate one : all) one.write(from, out);
  }

  Accumulator read(ByteBuffer in) {
    Accumulator made = empty();
    for (int i = 0; i < lanes; i++) made.lanes[i] = in.getLong();
    for (Aggregate one : all) one.read(made, in);
    return made;
  }
}
