package headrace.kernel.operators;

import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.PageStore;
import headrace.kernel.state.ShardStore;
import headrace.kernel.state.SortedBag;
import headrace.kernel.time.BatchWatermark;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The first n rows of each group by a score; operators/top.py says what it means.
 *
 * <p>State: the rows of each group. Where rows may be taken back, all of them, because any may move
 * up; where they may not, only the first n.
 */
final class Top extends ShardProcessor<Object> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND = new OperatorKind<>("top", 3, Options.class, Top::new);
  private static final long ALL = 0;
  private static final int NEXT_PAGE = OWN_MARKS;
  private static final int BOARD = 0;
  private static final int PAGE = 1;
  private static final UTF8String MINUS = UTF8String.fromString("-");

  private final int most;
  private final int sign;
  private final boolean places;
  private transient LinkedHashMap<Key, List<Ranking.Entry>> touched;
  private transient UnsafeRow reading;
  private transient Ranking ranking;
  private transient PageStore pages;

  /**
   * @param n how many rows of a group are given
   * @param takenBack whether rows may be taken back; their sign is the column behind the score
   * @param places whether each row is given with its place
   */
  record Options(int n, boolean takenBack, boolean places) implements OperatorOptions {
    @Override
    public Iterator<byte[]> gathered(
        Operator operator, BatchWatermark watermark, Iterator<byte[]> rows) {
      return takenBack ? null : new GatheredRows(operator, watermark, n, rows);
    }
  }

  private Top(Operator operator, Options options) {
    super(operator);
    this.most = options.n;
    this.sign = options.takenBack ? operator.input.size() + 1 : -1;
    this.places = options.places;
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
          out.put(PAGE);
          page.write(out);
        } else {
          out.put(BOARD);
          board(value).write(out);
        }
      }

      @Override
      public int rows(Object value) {
        return value instanceof SortedBag.Page<?> page ? page.size() : board(value).rows();
      }

      @Override
      public Object read(ByteBuffer in) {
        if (in.get() == PAGE) return SortedBag.Page.read(ranking, in);
        SortedBag<Ranking.Entry> board = SortedBag.read(ranking, in);
        board.attach(pages);
        return board;
      }
    };
  }

  @SuppressWarnings("unchecked")
  private static SortedBag<Ranking.Entry> board(Object value) {
    return (SortedBag<Ranking.Entry>) value;
  }

  @Override
  void opened() {
    touched = new LinkedHashMap<>();
    reading = new UnsafeRow(operator.rows.size());
    ranking = new Ranking(operator);
    pages = new PageStore(store, NEXT_PAGE);
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    SortedBag<Ranking.Entry> board = board(store.get(ALL, key));
    boolean full = sign < 0 && board != null && board.different() == most;
    if (full && ranking.isBehind(row, board.last())) return;
    boolean back = sign >= 0 && MINUS.equals(row.getUTF8String(sign));
    if (sign >= 0) row.setNullAt(sign); // so that a row and its taking back are the same
    Ranking.Entry entry = ranking.entry(row, row.getBytes(), 0);
    if (full && ranking.compare(entry, board.last()) > 0) return;
    if (board == null) store.put(ALL, key, board = new SortedBag<>(ranking));
    if (!touched.containsKey(key)) touched.put(key, first(board));
    board.add(entry, back ? -1 : 1);
    if (sign < 0 && board.different() > most) board.dropLast();
  }

  /**
   * The first rows as they are told, each as often as it is there; what was only taken back so far
   * counts for nothing.
   */
  private List<Ranking.Entry> first(SortedBag<Ranking.Entry> board) {
    List<Ranking.Entry> first = new ArrayList<>(Math.min(most, board.different()));
    board.each(
        (entry, times) -> {
          for (int i = 0; i < times && first.size() < most; i++) first.add(entry);
          return first.size() < most;
        });
    return first;
  }

  @Override
  boolean settle() {
    Map.Entry<Key, List<Ranking.Entry>> change = poll(touched);
    if (change == null) return false;
    SortedBag<Ranking.Entry> board = board(store.get(ALL, change.getKey()));
    List<Ranking.Entry> before = change.getValue(), after = first(board);
    if (places) {
      for (int i = 0; i < Math.max(before.size(), after.size()); i++) {
        Ranking.Entry old = i < before.size() ? before.get(i) : null,
            next = i < after.size() ? after.get(i) : null;
        if (old != null && next != null && ranking.compare(old, next) == 0) continue;
        replace(old == null ? null : values(old, i + 1), next == null ? null : values(next, i + 1));
      }
    } else {
      differences(before, after).forEach(entry -> emit(ResultRow.minus(values(entry, 0))));
      differences(after, before).forEach(entry -> emit(values(entry, 0)));
    }
    board.save(pages);
    if (board.isEmpty()) store.remove(ALL, change.getKey());
    else store.put(ALL, change.getKey(), board);
    return true;
  }

  /** What the ordered list has more than the other. */
  private List<Ranking.Entry> differences(List<Ranking.Entry> of, List<Ranking.Entry> other) {
    List<Ranking.Entry> more = new ArrayList<>();
    int j = 0;
    for (Ranking.Entry entry : of) {
      while (j < other.size() && ranking.compare(other.get(j), entry) < 0) j++;
      if (j < other.size() && ranking.compare(other.get(j), entry) == 0) j++;
      else more.add(entry);
    }
    return more;
  }

  private Object[] values(Ranking.Entry entry, int place) {
    Object[] values = new Object[operator.output.size()];
    entry.read(reading);
    for (int i = 0; i < operator.input.size(); i++) {
      values[i] =
          reading.isNullAt(i) ? null : reading.get(i, operator.input.fields()[i].dataType());
    }
    if (places) values[operator.input.size()] = (long) place;
    return ResultRow.plus(values);
  }
}
