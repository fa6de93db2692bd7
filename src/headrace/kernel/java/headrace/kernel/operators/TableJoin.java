package headrace.kernel.operators;

import headrace.kernel.state.Bag;
import headrace.kernel.state.ByteSink;
import headrace.kernel.state.Key;
import headrace.kernel.state.ShardStore;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The join of two tables of changes; operators/join.py says what it means.
 *
 * <p>Rows come with the side they are of, the key, a plus or minus, and packed. State: the rows of
 * both sides under each key. A change of one side meets every row of the other. Where a side is
 * kept whole, its rows stand alone as long as the other side has none.
 */
final class TableJoin extends ShardProcessor<TableJoin.Partners> {
  private static final long serialVersionUID = 1L;
  static final OperatorKind<Options> KIND =
      new OperatorKind<>("table_join", 3, Options.class, TableJoin::new);
  private static final long ALL = 0;
  private static final UTF8String MINUS = UTF8String.fromString("-");

  private final Sides sides;
  private final int sign;

  /** The rows of a key, by side. */
  static final class Partners {
    final Bag[] rows = {new Bag(), new Bag()};
  }

  /** It has no others than every join. */
  record Options(
      String side, String sign, List<String> sides, List<List<Integer>> places, List<Boolean> whole)
      implements Sides.Options {}

  private TableJoin(Operator operator, Options options) {
    super(operator);
    sides = new Sides(operator, options);
    sign = operator.input.fieldIndex(options.sign);
  }

  @Override
  ShardStore.Codec<Partners> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Partners of, ByteSink out) {
        for (Bag rows : of.rows) rows.write(out);
      }

      @Override
      public Partners read(ByteBuffer in) {
        Partners of = new Partners();
        for (int i = 0; i < 2; i++) of.rows[i] = Bag.read(in);
        return of;
      }

      @Override
      public int rows(Partners of) {
        return of.rows[Sides.LEFT].entries() + of.rows[Sides.RIGHT].entries();
      }

      @Override
      public boolean isBrief(Partners of) {
        return of.rows[Sides.LEFT].isBrief() || of.rows[Sides.RIGHT].isBrief();
      }

      @Override
      public void writeChange(Partners of, ByteSink out) {
        for (Bag rows : of.rows) rows.writeChange(out);
      }

      @Override
      public void readChange(Partners of, ByteBuffer in) {
        for (int i = 0; i < 2; i++) of.rows[i] = of.rows[i].changed(in);
      }
    };
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    int mine = sides.of(row), other = 1 - mine;
    int times = MINUS.equals(row.getUTF8String(sign)) ? -1 : 1;
    byte[] bytes = sides.packed(row);
    if (sides.hasNull(key)) { // it never has a partner
      if (sides.whole[mine]) tell(mine, bytes, null, times);
      return;
    }
    Partners known = store.get(ALL, key);
    Partners of = known == null ? new Partners() : known;
    Bag partners = of.rows[other];
    boolean aloneBefore = of.rows[mine].size() <= 0;
    of.rows[mine].add(bytes, times);
    boolean aloneNow = of.rows[mine].size() <= 0;
    boolean whole = sides.whole[other];
    if (whole && aloneBefore && !aloneNow)
      partners.each((partner, count) -> tell(other, partner, null, -count));
    if (sides.whole[mine] && partners.size() <= 0) tell(mine, bytes, null, times);
    partners.each((partner, count) -> tell(mine, bytes, partner, times * count));
    if (whole && !aloneBefore && aloneNow)
      partners.each((partner, count) -> tell(other, partner, null, count));
    if (of.rows[Sides.LEFT].isEmpty() && of.rows[Sides.RIGHT].isEmpty()) store.remove(ALL, key);
    else store.put(ALL, key, of);
  }

  /** A row of a side with one of the other, or alone: put or taken back so many times. */
  private void tell(int mine, byte[] row, byte[] partner, int times) {
    for (int i = 0; i < Math.abs(times); i++) {
      Object[] values = sides.result(mine, row, partner);
      emit(times < 0 ? ResultRow.minus(values) : ResultRow.plus(values));
    }
  }
}
