package headrace.kernel;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import org.apache.datasketches.common.ArrayOfStringsSerDe;
import org.apache.datasketches.frequencies.ErrorType;
import org.apache.datasketches.frequencies.ItemsSketch;
import org.apache.datasketches.hll.HllSketch;
import org.apache.datasketches.hll.TgtHllType;
import org.apache.datasketches.hll.Union;
import org.apache.datasketches.kll.KllDoublesSketch;
import org.apache.datasketches.memory.Memory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.sketch.CountMinSketch;
import org.apache.spark.util.sketch.IncompatibleMergeException;
import scala.math.Ordering;

/** The aggregate functions. */
final class Functions {
  private Functions() {}

  /** The one that a spec of operators/aggregate.py names, the how-maniest of its operator, and where inputs begin. */
  static Aggregate of(JsonNode spec, int number, int firstInput) {
    int input = spec.get("input").asInt(-1) < 0 ? -1 : firstInput + spec.get("input").asInt();
    int by = spec.path("by").asInt(-1) < 0 ? -1 : firstInput + spec.get("by").asInt();
    DataType type = DataType.fromDDL(spec.get("type").asText());
    DataType in = spec.hasNonNull("input_type") ? DataType.fromDDL(spec.get("input_type").asText()) : type;
    String kind = spec.get("kind").asText();
    if (spec.path("taken_back").asBoolean() && !kind.equals("count")) {
      DataType byType = spec.hasNonNull("by_type") ? DataType.fromDDL(spec.get("by_type").asText()) : null;
      return Reversible.of(kind, number, spec.get("name").asText(), input, by, type, in, byType, spec.path("ties"));
    }
    return switch (kind) {
      case "count" -> new Count(input);
      case "sum" -> type instanceof DoubleType ? new SumDouble(input, false)
          : type instanceof DecimalType decimal ? new SumDecimal(input, (DecimalType) in, decimal, spec.get("name").asText())
          : new SumLong(input, in, spec.get("name").asText());
      case "avg" -> new SumDouble(input, true);
      case "min", "max" -> Value.isLong(in) ? new ExtremeLong(input, in, kind.equals("max"))
          : new Extreme(input, -1, in, in, kind.equals("max"));
      case "min_by", "max_by" -> {
        DataType byType = DataType.fromDDL(spec.get("by_type").asText());
        yield spec.hasNonNull("ties") ? new Tied(input, by, in, byType, kind.equals("max_by"), spec.get("ties").asInt())
            : new Extreme(input, by, in, byType, kind.equals("max_by"));
      }
      case "first", "last" -> new AtEnd(input, in, kind.equals("last"));
      case "collect" -> new Collect(input, in, spec.get("most").asInt());
      case "count_distinct" -> new CountDistinct(input, in);
      case "approx_distinct" -> new ApproxDistinct(input, in, spec.get("lg_k").asInt());
      case "approx_quantile" -> new ApproxQuantile(input, spec.get("q").asDouble(), spec.get("k").asInt());
      case "approx_top_k" -> new ApproxTop(input, spec.get("k").asInt(), spec.get("capacity").asInt());
      case "count_min" -> new CountMin(input, texts(spec.get("of")), spec.get("error").asDouble(),
          spec.get("confidence").asDouble());
      default -> throw new IllegalArgumentException("there is no aggregate " + kind);
    };
  }

  private static final class Count extends Aggregate {
    private final int input;

    Count(int input) {
      this.input = input;
    }

    @Override
    int lanes() {
      return 1;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (input < 0 || !row.isNullAt(input)) to.lanes[lane]++;
    }

    @Override
    boolean takesOut() {
      return true;
    }

    @Override
    void remove(Accumulator from, InternalRow row) {
      if (input < 0 || !row.isNullAt(input)) from.lanes[lane]--;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      to.lanes[lane] += from.lanes[lane];
    }

    @Override
    Object result(Accumulator of) {
      return of.lanes[lane];
    }
  }

  static ArithmeticException overflow(String name, String type) {
    return new ArithmeticException("the aggregate " + name + " does not fit " + type
        + " any more; sum a wider type, such as cast(… as decimal(38, 0))");
  }

  private static final class SumLong extends Aggregate {
    private final int input;
    private final DataType type;
    private final String name;

    SumLong(int input, DataType type, String name) {
      this.input = input;
      this.type = type;
      this.name = name;
    }

    @Override
    int lanes() {
      return 2;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input)) plus(to, Value.asLong(row, input, type), 1);
    }

    @Override
    boolean takesOut() {
      return true;
    }

    @Override
    void remove(Accumulator from, InternalRow row) {
      if (!row.isNullAt(input)) {
        from.lanes[lane] -= Value.asLong(row, input, type);
        from.lanes[lane + 1]--;
      }
    }

    private void plus(Accumulator to, long value, long count) {
      long sum = to.lanes[lane] + value;
      if (((to.lanes[lane] ^ sum) & (value ^ sum)) < 0) throw overflow(name, "bigint");
      to.lanes[lane] = sum;
      to.lanes[lane + 1] += count;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      plus(to, from.lanes[lane], from.lanes[lane + 1]);
    }

    @Override
    Object result(Accumulator of) {
      return of.lanes[lane + 1] == 0 ? null : (Object) of.lanes[lane];
    }
  }

  /** The sum of doubles, or their mean. */
  private static final class SumDouble extends Aggregate {
    private final int input;
    private final boolean mean;

    SumDouble(int input, boolean mean) {
      this.input = input;
      this.mean = mean;
    }

    @Override
    int lanes() {
      return 2;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input)) plus(to, row.getDouble(input), 1);
    }

    private void plus(Accumulator to, double value, long count) {
      to.lanes[lane] = Double.doubleToRawLongBits(Double.longBitsToDouble(to.lanes[lane]) + value);
      to.lanes[lane + 1] += count;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      plus(to, Double.longBitsToDouble(from.lanes[lane]), from.lanes[lane + 1]);
    }

    @Override
    Object result(Accumulator of) {
      if (of.lanes[lane + 1] == 0) return null;
      double sum = Double.longBitsToDouble(of.lanes[lane]);
      return mean ? sum / of.lanes[lane + 1] : sum;
    }
  }

  private static final class SumDecimal extends Aggregate {
    private final int input;
    private final DecimalType in;
    private final DecimalType type;
    private final String name;

    SumDecimal(int input, DecimalType in, DecimalType type, String name) {
      this.input = input;
      this.in = in;
      this.type = type;
      this.name = name;
    }

    @Override
    int cells() {
      return 1;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input)) plus(to, row.getDecimal(input, in.precision(), in.scale()));
    }

    private void plus(Accumulator to, Decimal value) {
      if (value == null) return;
      Decimal sum = to.cells[cell] == null ? value.clone() : ((Decimal) to.cells[cell]).$plus(value);
      if (!sum.changePrecision(type.precision(), type.scale())) throw overflow(name, type.sql());
      to.cells[cell] = sum;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      plus(to, (Decimal) from.cells[cell]);
    }

    @Override
    Object result(Accumulator of) {
      return of.cells[cell];
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      Value.write(out, from.cells[cell], type);
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      to.cells[cell] = Value.read(in, type);
    }
  }

  /** The least or greatest of values that fit a lane. */
  private static final class ExtremeLong extends Aggregate {
    private final int input;
    private final DataType type;
    private final boolean greatest;

    ExtremeLong(int input, DataType type, boolean greatest) {
      this.input = input;
      this.type = type;
      this.greatest = greatest;
    }

    @Override
    int lanes() {
      return 2;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input)) take(to, Value.asLong(row, input, type));
    }

    private void take(Accumulator to, long value) {
      if (to.lanes[lane + 1] == 0 || (greatest ? value > to.lanes[lane] : value < to.lanes[lane])) to.lanes[lane] = value;
      to.lanes[lane + 1] = 1;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      if (from.lanes[lane + 1] != 0) take(to, from.lanes[lane]);
    }

    @Override
    Object result(Accumulator of) {
      return of.lanes[lane + 1] == 0 ? null : Value.fromLong(of.lanes[lane], type);
    }
  }

  /** What is kept of the rows whose `by` is least or greatest; the second cell holds that `by`. */
  private abstract static class Ranked extends Aggregate {
    private final int input;
    private final int by;
    final DataType type;
    final DataType byType;
    private final boolean greatest;
    transient Ordering<Object> order;
    private transient Ordering<Object> byOrder;

    Ranked(int input, int by, DataType type, DataType byType, boolean greatest) {
      this.input = input;
      this.by = by;
      this.type = type;
      this.byType = byType;
      this.greatest = greatest;
    }

    @Override
    int cells() {
      return 2;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (row.isNullAt(by)) return;
      Object key = Value.of(row, by, byType);
      int compared = compared(to, key);
      if (compared <= 0) take(to, Value.of(row, input, type), key, compared);
    }

    /** Less than 0 when the key is ahead of what is known. */
    final int compared(Accumulator to, Object key) {
      if (order == null) {
        order = ordering(type);
        byOrder = ordering(byType);
      }
      Object known = to.cells[cell + 1];
      return known == null ? -1 : greatest ? byOrder.compare(known, key) : byOrder.compare(key, known);
    }

    /** Takes in a value whose key is ahead, or the same one. */
    abstract void take(Accumulator to, Object value, Object key, int compared);
  }

  /** The value whose `by` is least or greatest, of equals the least value; without `by` the least or greatest itself. */
  private static final class Extreme extends Ranked {
    Extreme(int input, int by, DataType type, DataType byType, boolean greatest) {
      super(input, by < 0 ? input : by, type, byType, greatest);
    }

    @Override
    void take(Accumulator to, Object value, Object key, int compared) {
      if (compared == 0 && !isBefore(value, to.cells[cell], order)) return;
      to.cells[cell] = value;
      to.cells[cell + 1] = key;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      Object key = from.cells[cell + 1];
      int compared = key == null ? 1 : compared(to, key);
      if (compared <= 0) take(to, from.cells[cell], key, compared);
    }

    @Override
    Object result(Accumulator of) {
      return of.cells[cell];
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      Value.write(out, from.cells[cell], type);
      Value.write(out, from.cells[cell + 1], byType);
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      to.cells[cell] = Value.read(in, type);
      to.cells[cell + 1] = Value.read(in, byType);
    }
  }

  /** The values of all rows whose `by` is least or greatest, the least values first. */
  private static final class Tied extends Ranked {
    private final int most;

    Tied(int input, int by, DataType type, DataType byType, boolean greatest, int most) {
      super(input, by, type, byType, greatest);
      this.most = most;
    }

    @SuppressWarnings("unchecked")
    private ArrayList<Object> values(Accumulator of) {
      return (ArrayList<Object>) of.cells[cell];
    }

    @Override
    void take(Accumulator to, Object value, Object key, int compared) {
      if (compared < 0) {
        to.cells[cell] = new ArrayList<>(2);
        to.cells[cell + 1] = key;
      }
      ArrayList<Object> values = values(to);
      int place = values.size();
      while (place > 0 && isBefore(value, values.get(place - 1), order)) place--;
      if (place < most) values.add(place, value);
      if (values.size() > most) values.remove(most);
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      Object key = from.cells[cell + 1];
      int compared = key == null ? 1 : compared(to, key);
      if (compared > 0) return;
      for (Object value : values(from)) {
        take(to, value, key, compared);
        compared = 0;
      }
    }

    @Override
    Object result(Accumulator of) {
      return of.cells[cell + 1] == null ? null : new GenericArrayData(values(of).toArray());
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      Value.write(out, from.cells[cell + 1], byType);
      if (from.cells[cell + 1] == null) return;
      out.putInt(values(from).size());
      for (Object value : values(from)) Value.write(out, value, type);
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      to.cells[cell + 1] = Value.read(in, byType);
      if (to.cells[cell + 1] == null) return;
      int count = in.getInt();
      ArrayList<Object> values = new ArrayList<>(count);
      for (int i = 0; i < count; i++) values.add(Value.read(in, type));
      to.cells[cell] = values;
    }
  }

  /** The first or last value by event time, of equals the least or greatest. */
  private static final class AtEnd extends Aggregate {
    private final int input;
    private final DataType type;
    private final boolean last;
    private transient Ordering<Object> order;

    AtEnd(int input, DataType type, boolean last) {
      this.input = input;
      this.type = type;
      this.last = last;
    }

    @Override
    int lanes() {
      return 1;
    }

    @Override
    int cells() {
      return 1;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input)) take(to, Value.of(row, input, type), at);
    }

    private void take(Accumulator to, Object value, long at) {
      if (to.cells[cell] != null) {
        if (order == null) order = ordering(type);
        int compared = Long.compare(at, to.lanes[lane]);
        if (compared == 0) compared = order.compare(value, to.cells[cell]);
        if (last ? compared <= 0 : compared >= 0) return;
      }
      to.cells[cell] = value;
      to.lanes[lane] = at;
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      if (from.cells[cell] != null) take(to, from.cells[cell], from.lanes[lane]);
    }

    @Override
    Object result(Accumulator of) {
      return of.cells[cell];
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      Value.write(out, from.cells[cell], type);
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      to.cells[cell] = Value.read(in, type);
    }
  }

  /** The first `most` values by event time and value. */
  private static final class Collect extends Aggregate {
    private final int input;
    private final DataType type;
    private final int most;
    private transient Ordering<Object> order;

    private record Item(long at, Object value) {}

    Collect(int input, DataType type, int most) {
      this.input = input;
      this.type = type;
      this.most = most;
    }

    @Override
    int cells() {
      return 1;
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input)) take(to, new Item(at, Value.of(row, input, type)));
    }

    @SuppressWarnings("unchecked")
    private static ArrayList<Item> items(Accumulator of, int cell) {
      return (ArrayList<Item>) of.cells[cell];
    }

    private int compare(Item a, Item b) {
      int compared = Long.compare(a.at, b.at);
      return compared != 0 ? compared : order.compare(a.value, b.value);
    }

    private void take(Accumulator to, Item item) {
      if (order == null) order = ordering(type);
      ArrayList<Item> items = items(to, cell);
      if (items == null) to.cells[cell] = items = new ArrayList<>(4);
      if (items.size() == most && compare(item, items.get(most - 1)) >= 0) return;
      int place = Collections.binarySearch(items, item, this::compare);
      items.add(place < 0 ? -place - 1 : place, item);
      if (items.size() > most) items.remove(most);
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      if (from.cells[cell] != null) items(from, cell).forEach(item -> take(to, item));
    }

    @Override
    Object result(Accumulator of) {
      List<Item> items = of.cells[cell] == null ? List.of() : items(of, cell);
      return new GenericArrayData(items.stream().map(Item::value).toArray());
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      List<Item> items = from.cells[cell] == null ? List.of() : items(from, cell);
      out.putInt(items.size());
      for (Item item : items) {
        out.putLong(item.at);
        Value.write(out, item.value, type);
      }
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      int count = in.getInt();
      if (count == 0) return;
      ArrayList<Item> items = new ArrayList<>(count);
      for (int i = 0; i < count; i++) items.add(new Item(in.getLong(), Value.read(in, type)));
      to.cells[cell] = items;
    }
  }

  private static final class CountDistinct extends Aggregate {
    private final int input;
    private final DataType type;

    CountDistinct(int input, DataType type) {
      this.input = input;
      this.type = type;
    }

    @Override
    int cells() {
      return 1;
    }

    @SuppressWarnings("unchecked")
    private HashSet<Object> values(Accumulator of) {
      if (of.cells[cell] == null) of.cells[cell] = new HashSet<>(4);
      return (HashSet<Object>) of.cells[cell];
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (row.isNullAt(input)) return;
      Object value = Value.of(row, input, type);
      values(to).add(value instanceof byte[] bytes ? ByteBuffer.wrap(bytes) : value instanceof Double d && d == 0.0 ? 0.0 : value);
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      if (from.cells[cell] != null) values(to).addAll(values(from));
    }

    @Override
    Object result(Accumulator of) {
      return of.cells[cell] == null ? 0L : (long) values(of).size();
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      out.putInt(from.cells[cell] == null ? 0 : values(from).size());
      if (from.cells[cell] == null) return;
      for (Object value : values(from)) Value.write(out, value instanceof ByteBuffer bytes ? bytes.array() : value, type);
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      for (int i = 0, n = in.getInt(); i < n; i++) {
        Object value = Value.read(in, type);
        values(to).add(value instanceof byte[] bytes ? ByteBuffer.wrap(bytes) : value);
      }
    }
  }

  /** HyperLogLog. */
  private static final class ApproxDistinct extends Aggregate {
    private final int input;
    private final DataType type;
    private final int lgK;

    ApproxDistinct(int input, DataType type, int lgK) {
      this.input = input;
      this.type = type;
      this.lgK = lgK;
    }

    @Override
    int cells() {
      return 1;
    }

    private HllSketch sketch(Accumulator of) {
      if (of.cells[cell] == null) of.cells[cell] = new HllSketch(lgK, TgtHllType.HLL_8);
      return (HllSketch) of.cells[cell];
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (row.isNullAt(input)) return;
      if (Value.isLong(type)) {
        sketch(to).update(Value.asLong(row, input, type));
        return;
      }
      ByteSink bytes = new ByteSink(32);
      Value.write(bytes, Value.of(row, input, type), type);
      sketch(to).update(bytes.bytes());
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      if (from.cells[cell] == null) return;
      Union union = new Union(lgK);
      union.update(sketch(to));
      union.update(sketch(from));
      to.cells[cell] = union.getResult(TgtHllType.HLL_8);
    }

    @Override
    Object result(Accumulator of) {
      return of.cells[cell] == null ? 0L : Math.round(sketch(of).getCompositeEstimate());
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      out.putSized(from.cells[cell] == null ? new byte[0] : sketch(from).toCompactByteArray());
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      byte[] bytes = Value.sized(in);
      if (bytes.length > 0) to.cells[cell] = HllSketch.heapify(Memory.wrap(bytes));
    }
  }

  /** KLL. */
  private static final class ApproxQuantile extends Aggregate {
    private final int input;
    private final double rank;
    private final int k;

    ApproxQuantile(int input, double rank, int k) {
      this.input = input;
      this.rank = rank;
      this.k = k;
    }

    @Override
    int cells() {
      return 1;
    }

    private KllDoublesSketch sketch(Accumulator of) {
      if (of.cells[cell] == null) of.cells[cell] = KllDoublesSketch.newHeapInstance(k);
      return (KllDoublesSketch) of.cells[cell];
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input) && !Double.isNaN(row.getDouble(input))) sketch(to).update(row.getDouble(input));
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      if (from.cells[cell] != null) sketch(to).merge(sketch(from));
    }

    @Override
    Object result(Accumulator of) {
      return of.cells[cell] == null || sketch(of).isEmpty() ? null : (Object) sketch(of).getQuantile(rank);
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      out.putSized(from.cells[cell] == null ? new byte[0] : sketch(from).toByteArray());
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      byte[] bytes = Value.sized(in);
      if (bytes.length > 0) to.cells[cell] = KllDoublesSketch.heapify(Memory.wrap(bytes));
    }
  }

  /** The most frequent items. */
  private static final class ApproxTop extends Aggregate {
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
      ArrayList<ItemsSketch.Row<String>> rows = new ArrayList<>(
          List.of(sketch(of).getFrequentItems(ErrorType.NO_FALSE_NEGATIVES)));
      rows.sort((a, b) -> a.getEstimate() != b.getEstimate() ? Long.compare(b.getEstimate(), a.getEstimate())
          : UTF8String.fromString(a.getItem()).compareTo(UTF8String.fromString(b.getItem())));
      return new GenericArrayData(rows.stream().limit(k).map(row -> new GenericInternalRow(
          new Object[] {UTF8String.fromString(row.getItem()), row.getEstimate()})).toArray());
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

  /** How often each of a few values is there. */
  private static final class CountMin extends Aggregate {
    private static final int SEED = 1;
    private final int input;
    private final String[] of;
    private final double error;
    private final double confidence;

    CountMin(int input, String[] of, double error, double confidence) {
      this.input = input;
      this.of = of;
      this.error = error;
      this.confidence = confidence;
    }

    @Override
    int cells() {
      return 1;
    }

    private CountMinSketch sketch(Accumulator of) {
      if (of.cells[cell] == null) of.cells[cell] = CountMinSketch.create(error, confidence, SEED);
      return (CountMinSketch) of.cells[cell];
    }

    @Override
    void add(Accumulator to, InternalRow row, long at) {
      if (!row.isNullAt(input)) sketch(to).addBinary(row.getUTF8String(input).getBytes());
    }

    @Override
    void merge(Accumulator to, Accumulator from) {
      if (from.cells[cell] == null) return;
      try {
        sketch(to).mergeInPlace(sketch(from));
      } catch (IncompatibleMergeException e) {
        throw new IllegalStateException(e);
      }
    }

    @Override
    Object result(Accumulator from) {
      Object[] names = new Object[of.length], counts = new Object[of.length];
      for (int i = 0; i < of.length; i++) {
        names[i] = UTF8String.fromString(of[i]);
        counts[i] = from.cells[cell] == null ? 0L : sketch(from).estimateCount(of[i].getBytes(StandardCharsets.UTF_8));
      }
      return new ArrayBasedMapData(new GenericArrayData(names), new GenericArrayData(counts));
    }

    @Override
    void write(Accumulator from, ByteSink out) {
      try {
        out.putSized(from.cells[cell] == null ? new byte[0] : sketch(from).toByteArray());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    void read(Accumulator to, ByteBuffer in) {
      byte[] bytes = Value.sized(in);
      if (bytes.length == 0) return;
      try {
        to.cells[cell] = CountMinSketch.readFrom(bytes);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  private static String[] texts(JsonNode list) {
    String[] texts = new String[list.size()];
    for (int i = 0; i < texts.length; i++) texts[i] = list.get(i).asText();
    return texts;
  }

  @SuppressWarnings("unchecked")
  private static Ordering<Object> ordering(DataType type) {
    return (Ordering<Object>) (Ordering<?>) TypeUtils.getInterpretedOrdering(type);
  }

  private static boolean isBefore(Object a, Object b, Ordering<Object> order) {
    if (a == null || b == null) return a == null && b != null;
    return order.compare(a, b) < 0;
  }
}
