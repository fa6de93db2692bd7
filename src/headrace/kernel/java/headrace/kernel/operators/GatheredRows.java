package headrace.kernel.operators;

import headrace.kernel.state.Key;
import headrace.kernel.time.BatchWatermark;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** The rows that may be among the first of their group. */
final class GatheredRows extends Gathered<Ranking.Entry> {
  private final Ranking ranking;
  private final int most;
  private LinkedHashMap<Key, ArrayList<Ranking.Entry>> groups = new LinkedHashMap<>();
  private int size;

  GatheredRows(Operator operator, BatchWatermark watermark, int most, Iterator<byte[]> rows) {
    super(operator, watermark, rows);
    this.ranking = new Ranking(operator);
    this.most = most;
  }

  @Override
  int size() {
    return size;
  }

  @Override
  Iterator<Ranking.Entry> empty() {
    Iterator<Ranking.Entry> full = groups.values().stream().flatMap(ArrayList::stream).iterator();
    groups = new LinkedHashMap<>();
    size = 0;
    return full;
  }

  @Override
  boolean isLate(long at) {
    return false;
  }

  @Override
  void gather(long at, Key key, UnsafeRow row, byte[] wrapped) {
    ArrayList<Ranking.Entry> known = groups.get(key);
    if (known == null) groups.put(key, known = new ArrayList<>(1));
    boolean full = known.size() == most;
    if (full && ranking.isBehind(row, known.get(most - 1))) return;
    Ranking.Entry one = ranking.entry(row, wrapped, WrappedRow.start(wrapped));
    if (full && ranking.compare(one, known.get(most - 1)) >= 0) return;
    int place = Collections.binarySearch(known, one, ranking::compare);
    known.add(place < 0 ? -place - 1 : place, one);
    if (known.size() > most) known.remove(most);
    else size++;
  }

  @Override
  byte[] message(Ranking.Entry one, long time) {
    return WrappedRow.message(one.bytes, operator, 0, 0, 0, watermark.before());
  }
}
