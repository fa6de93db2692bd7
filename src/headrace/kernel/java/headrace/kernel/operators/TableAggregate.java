package headrace.kernel.operators;

import headrace.kernel.aggregates.Accumulator;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.PageStore;
import headrace.kernel.state.ShardStore;
import headrace.kernel.state.SortedBag;
import headrace.kernel.time.BatchWatermark;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Aggregates of the rows of each group that are there; operators/aggregation.py says what they
 * mean.
 *
 * <p>State: of each group how many rows it has and what the aggregates have gathered of them. A
 * group without rows is gone. What was told of a group is computed again from what is known before
 * the rows of a call change it.
 */
final class TableAggregate extends ShardProcessor<Object> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("aggregate", 3, Options.class, TableAggregate::new);
  private static final long ALL = 0;
  private static final int NEXT_PAGE = OWN_MARKS;
  private static final int GROUP = 0;
  private static final int PAGE = 1;
  private static final UTF8String MINUS = UTF8String.fromString("-");

  private final int sign;
  private transient ResultRow result;
  private transient PageStore pages;
  private transient LinkedHashMap<Key, Object[]> touched;

  private static final class Group {
    final Accumulator values;
    long rows;

    Group(Accumulator values, long rows) {
      this.values = values;
      this.rows = rows;
    }
  }

  /** The column that says whether a row comes or goes; null where all come. */
  record Options(String sign) implements OperatorOptions {
    /** Its number, or -1. */
    private int place(Operator operator) {
      return sign == null ? -1 : operator.input.fieldIndex(sign);
    }

    @Override
    public Iterator<byte[]> gathered(
        Operator operator, BatchWatermark watermark, Iterator<byte[]> rows) {
      return new GatheredGroups(operator, watermark, place(operator), rows);
    }
  }

  private TableAggregate(Operator operator, Options options) {
    super(operator);
    this.sign = options.place(operator);
  }

  static boolean isBack(UnsafeRow row, int sign) {
    return sign >= 0 && MINUS.equals(row.getUTF8String(sign));
  }

  @Override
  long[] ownMarks() {
    return new long[1];
  }

  @Override
  ShardStore.Codec<Object> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Object value, ByteSink out) {
        if (value instanceof SortedBag.Page<?> page) {
          out.put(PAGE).put(page.of.number());
          page.write(out);
          return;
        }
        Group group = (Group) value;
        out.put(GROUP).putLong(group.rows);
        operator.aggregates.write(group.values, out);
      }

      @Override
      public int rows(Object value) {
        return value instanceof SortedBag.Page<?> page ? page.size() : 1;
      }

      @Override
      public Object read(ByteBuffer in) {
        if (in.get() == PAGE) return SortedBag.Page.read(operator.aggregates.items(in.get()), in);
        long rows = in.getLong();
        Accumulator values = operator.aggregates.read(in);
        operator.aggregates.attach(values, pages);
        return new Group(values, rows);
      }
    };
  }

  @Override
  void opened() {
    result = new ResultRow(operator);
    pages = new PageStore(store, NEXT_PAGE);
    touched = new LinkedHashMap<>();
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    Group group = touch(key);
    if (isBack(row, sign)) {
      operator.aggregates.remove(group.values, row);
      group.rows--;
    } else {
      operator.aggregates.add(group.values, row, at);
      group.rows++;
    }
  }

  @Override
  void take(Key key, long pane, int rows, Accumulator gathered) {
    Group group = touch(key);
    operator.aggregates.merge(group.values, gathered);
    group.rows += rows;
  }

  /** What is known of a group that is about to change. */
  private Group touch(Key key) {
    Group group = (Group) store.get(ALL, key);
    if (group == null) store.put(ALL, key, group = new Group(operator.aggregates.empty(), 0));
    if (!touched.containsKey(key)) touched.put(key, told(key, group));
    return group;
  }

  private Object[] told(Key key, Group group) {
    return group.rows <= 0 ? null : result.of(key, 0, Long.MAX_VALUE, group.values);
  }

  @Override
  boolean settle() {
    Map.Entry<Key, Object[]> change = poll(touched);
    if (change == null) return false;
    Key key = change.getKey();
    Group group = (Group) store.get(ALL, key);
    operator.aggregates.save(group.values, pages);
    if (group.rows == 0 && operator.aggregates.isClear(group.values)) store.remove(ALL, key);
    else store.put(ALL, key, group);
    Object[] before = change.getValue(), after = told(key, group);
    if (!Arrays.deepEquals(before, after)) replace(before, after);
    return true;
  }
}
