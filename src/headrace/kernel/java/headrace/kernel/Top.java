package headrace.kernel;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.math.Ordering;

/**
 * The first n rows of each group by a score; operators/top.py says what it means.
 *
 * <p>State: the rows of each group. Where rows may be taken back, all of them, because any may move up; where they may not,
 * only the first n.
 */
final class Top extends ShardProcessor<Top.Board> {
  private static final long serialVersionUID = 1L;
  private static final long ALL = 0;
  private static final UTF8String MINUS = UTF8String.fromString("-");

  private final int most;
  private final int score;
  private final int sign;
  private final boolean places;
  private transient LinkedHashMap<Key, List<Entry>> touched;
  private transient UnsafeRow reading;
  private transient Comparator<Entry> order;

  /** A row and its score. */
  static final class Entry {
    final byte[] row;
    final Object score;

    Entry(byte[] row, Object score) {
      this.row = row;
      this.score = score;
    }
  }

  /** How often each row is there, the first one first. */
  static final class Board extends TreeMap<Entry, Integer> {
    private static final long serialVersionUID = 1L;

    Board(Comparator<Entry> order) {
      super(order);
    }
  }

  Top(Operator operator) {
    super(operator);
    this.most = operator.spec().get("n").asInt();
    this.score = operator.input.size();
    this.sign = operator.spec().get("taken_back").asBoolean() ? score + 1 : -1;
    this.places = operator.spec().get("places").asBoolean();
  }

  @Override
  boolean timeless() {
    return true;
  }

  @Override
  long[] ownMarks() {
    return new long[0];
  }

  @Override
  ShardStore.Codec<Board> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Board board, ByteSink out) {
        out.putInt(board.size());
        board.forEach((entry, count) -> out.putInt(count).putSized(entry.row));
      }

      @Override
      public Board read(ByteBuffer in) {
        Board board = new Board(order());
        for (int i = 0, size = in.getInt(); i < size; i++) {
          int count = in.getInt();
          board.put(entry(Value.sized(in)), count);
        }
        return board;
      }
    };
  }

  @Override
  void opened() {
    touched = new LinkedHashMap<>();
  }

  private UnsafeRow read(byte[] row) {
    if (reading == null) reading = new UnsafeRow(operator.rows.size());
    reading.pointTo(row, row.length);
    return reading;
  }

  private Entry entry(byte[] row) {
    return new Entry(row, Value.of(read(row), score, operator.rows.fields()[score].dataType()));
  }

  /** The greatest score first, one that is null last; of equals, the row that is first by its columns. */
  @SuppressWarnings("unchecked")
  private Comparator<Entry> order() {
    if (order != null) return order;
    DataType type = operator.rows.fields()[score].dataType();
    Ordering<Object> scores = (Ordering<Object>) (Ordering<?>) TypeUtils.getInterpretedOrdering(type);
    Ordering<Object> rows = (Ordering<Object>) (Ordering<?>) TypeUtils.getInterpretedOrdering(new StructType(operator.input.fields()));
    UnsafeRow one = new UnsafeRow(operator.rows.size()), other = new UnsafeRow(operator.rows.size());
    order = (a, b) -> {
      int compared = a.score == null || b.score == null ? Boolean.compare(a.score == null, b.score == null)
          : scores.compare(b.score, a.score);
      if (compared != 0 || Arrays.equals(a.row, b.row)) return compared;
      one.pointTo(a.row, a.row.length);
      other.pointTo(b.row, b.row.length);
      return rows.compare(one, other);
    };
    return order;
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    Board board = store.get(ALL, key);
    if (board == null) board = new Board(order());
    if (!touched.containsKey(key)) touched.put(key, first(board));
    boolean back = sign >= 0 && MINUS.equals(row.getUTF8String(sign));
    if (sign >= 0) row.setNullAt(sign); // so that a row and its taking back are the same
    Entry entry = entry(row.getBytes());
    int count = board.getOrDefault(entry, 0) + (back ? -1 : 1);
    if (count == 0) board.remove(entry);
    else board.put(entry, count);
    if (sign < 0 && board.size() > most) board.pollLastEntry();
    store.put(ALL, key, board);
  }

  /** The first rows as they are told, each as often as it is there; what was only taken back so far counts for nothing. */
  private List<Entry> first(Board board) {
    List<Entry> first = new ArrayList<>(most);
    for (Map.Entry<Entry, Integer> one : board.entrySet()) {
      for (int i = 0; i < one.getValue() && first.size() < most; i++) first.add(one.getKey());
      if (first.size() == most) break;
    }
    return first;
  }

  @Override
  void settle() {
    for (Map.Entry<Key, List<Entry>> change : touched.entrySet()) {
      Board board = store.get(ALL, change.getKey());
      List<Entry> before = change.getValue(), after = first(board);
      if (places) {
        for (int i = 0; i < Math.max(before.size(), after.size()); i++) {
          boolean same = i < before.size() && i < after.size() && order().compare(before.get(i), after.get(i)) == 0;
          if (same) continue;
          if (i < before.size()) emit(ResultRow.minus(values(before.get(i), i + 1)));
          if (i < after.size()) emit(values(after.get(i), i + 1));
        }
      } else {
        differences(before, after).forEach(entry -> emit(ResultRow.minus(values(entry, 0))));
        differences(after, before).forEach(entry -> emit(values(entry, 0)));
      }
      if (board.isEmpty()) store.remove(ALL, change.getKey());
    }
    touched.clear();
  }

  /** What the ordered list has more than the other. */
  private List<Entry> differences(List<Entry> of, List<Entry> other) {
    List<Entry> more = new ArrayList<>();
    int j = 0;
    for (Entry entry : of) {
      while (j < other.size() && order().compare(other.get(j), entry) < 0) j++;
      if (j < other.size() && order().compare(other.get(j), entry) == 0) j++;
      else more.add(entry);
    }
    return more;
  }

  private Object[] values(Entry entry, int place) {
    Object[] values = new Object[operator.output.size()];
    UnsafeRow row = read(entry.row);
    for (int i = 0; i < operator.input.size(); i++) {
      values[i] = row.isNullAt(i) ? null : row.get(i, operator.input.fields()[i].dataType());
    }
    if (places) values[operator.input.size()] = (long) place;
    return ResultRow.plus(values);
  }

  @Override
  void pass() {}

  @Override
  long due() {
    return Long.MAX_VALUE;
  }
}
