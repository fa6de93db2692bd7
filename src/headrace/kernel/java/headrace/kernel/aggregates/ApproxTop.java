package headrace.kernel.aggregates;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Value;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.datasketches.common.ArrayOfStringsSerDe;
import org.apache.datasketches.frequencies.ErrorType;
import org.apache.datasketches.frequencies.ItemsSketch;
import org.apache.datasketches.memory.Memory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** The most frequent items. */
final class ApproxTop extends Aggregate {
  private static final ArrayOfStringsSerDe ITEMS = new ArrayOfStringsSerDe();
  private final int input;
  private final int k;
  private final int capacity;

  ApproxTop(int input, int k, int capacity) {
    this.input = input;
    this.k = k;
    this.capacity = capacity;
  }

  @Override
  int cells() {
    return 1;
  }

  @SuppressWarnings("unchecked")
  private ItemsSketch<String> sketch(Accumulator of) {
    if (of.cells[cell] == null) of.cells[cell] = new ItemsSketch<String>(capacity);
    return (ItemsSketch<String>) of.cells[cell];
  }

  @Override
  void add(Accumulator to, InternalRow row, long at) {
    if (!row.isNullAt(input)) sketch(to).update(row.getUTF8String(input).toString());
  }

  @Override
  void merge(Accumulator to, Accumulator from) {
    if (from.cells[cell] != null) sketch(to).merge(sketch(from));
  }

  @Override
  Object result(Accumulator of) {
    if (of.cells[cell] == null) return new GenericArrayData(new Object[0]);
    ArrayList<ItemsSketch.Row<String>> rows =
        new ArrayList<>(List.of(sketch(of).getFrequentItems(ErrorType.NO_FALSE_NEGATIVES)));
    rows.sort(
        (a, b) ->
            a.getEstimate() != b.getEstimate()
                ? Long.compare(b.getEstimate(), a.getEstimate())
                : UTF8String.fromString(a.getItem()).compareTo(UTF8String.fromString(b.getItem())));
    return new GenericArrayData(
        rows.stream()
            .limit(k)
            .map(
                row ->
                    new GenericInternalRow(
                        new Object[] {UTF8String.fromString(row.getItem()), row.getEstimate()}))
            .toArray());
  }

  @Override
  void write(Accumulator from, ByteSink out) {
    out.putSized(from.cells[cell] == null ? new byte[0] : sketch(from).toByteArray(ITEMS));
  }

  @Override
  void read(Accumulator to, ByteBuffer in) {
    byte[] bytes = Value.sized(in);
    if (bytes.length > 0) to.cells[cell] = ItemsSketch.getInstance(Memory.wrap(bytes), ITEMS);
  }
}
