package headrace.kernel;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The join of two tables of changes; operators/join.py says what it means.
 *
 * <p>Rows come with the side they are of, the key, a plus or minus, and packed. State: the rows of both sides under each key.
 * A change of one side meets every row of the other. Where a side is kept whole, its rows stand alone as long as the other
 * side has none.
 */
final class TableJoin extends ShardProcessor<TableJoin.Sides> {
  private static final long serialVersionUID = 1L;
  private static final long ALL = 0;
  private static final int LEFT = 0;
  private static final int RIGHT = 1;
  private static final UTF8String MINUS = UTF8String.fromString("-");

  private final int side;
  private final int sign;
  private final int packed;
  private final StructType[] schemas = new StructType[2];
  private final boolean[] whole = new boolean[2];
  private final int[][] places;
  private transient UnsafeRow[] reading;

  /** The rows of a key. */
  static final class Sides {
    final Bag[] rows = {new Bag(), new Bag()};
  }

  TableJoin(Operator operator) {
    super(operator);
    JsonNode spec = operator.spec();
    side = operator.input.fieldIndex(spec.get("side").asText());
    sign = operator.input.fieldIndex(spec.get("sign").asText());
    packed = operator.input.fieldIndex(PackedRow.COLUMN);
    places = new int[2][];
    for (int i = 0; i < 2; i++) {
      schemas[i] = StructType.fromDDL(spec.get("sides").get(i).asText());
      whole[i] = spec.get("whole").get(i).asBoolean();
      places[i] = new int[schemas[i].size()];
      for (int c = 0; c < places[i].length; c++) places[i][c] = spec.get("places").get(i).get(c).asInt();
    }
  }

  @Override
  ShardStore.Codec<Sides> codec() {
    return new ShardStore.Codec<>() {
      @Override
      public void write(Sides sides, ByteSink out) {
        for (Bag rows : sides.rows) rows.write(out);
      }

      @Override
      public Sides read(ByteBuffer in) {
        Sides sides = new Sides();
        for (int i = 0; i < 2; i++) sides.rows[i] = Bag.read(in);
        return sides;
      }
    };
  }

  @Override
  void opened() {
    reading = new UnsafeRow[] {new UnsafeRow(schemas[LEFT].size()), new UnsafeRow(schemas[RIGHT].size())};
  }

  @Override
  void take(Key key, long at, UnsafeRow row) {
    int mine = row.getInt(side), other = 1 - mine;
    int times = MINUS.equals(row.getUTF8String(sign)) ? -1 : 1;
    byte[] bytes = row.getBinary(packed);
    if (hasNull(key)) { // it never has a partner
      if (whole[mine]) tell(mine, bytes, null, times);
      return;
    }
    Sides known = store.get(ALL, key);
    Sides sides = known == null ? new Sides() : known;
    Bag partners = sides.rows[other];
    boolean aloneBefore = sides.rows[mine].size() <= 0;
    sides.rows[mine].add(new Key(bytes), times);
    boolean aloneNow = sides.rows[mine].size() <= 0;
    if (whole[other] && aloneBefore && !aloneNow) partners.each((partner, count) -> tell(other, partner, null, -count));
    if (whole[mine] && partners.size() <= 0) tell(mine, bytes, null, times);
    partners.each((partner, count) -> tell(mine, bytes, partner, times * count));
    if (whole[other] && !aloneBefore && aloneNow) partners.each((partner, count) -> tell(other, partner, null, count));
    if (sides.rows[LEFT].isEmpty() && sides.rows[RIGHT].isEmpty()) store.remove(ALL, key);
    else store.put(ALL, key, sides);
  }

  private boolean hasNull(Key key) {
    UnsafeRow row = new UnsafeRow(operator.key.size());
    row.pointTo(key.bytes, key.bytes.length);
    return row.anyNull();
  }

  /** A row of a side with one of the other, or alone: put or taken back so many times. */
  private void tell(int mine, byte[] row, byte[] partner, int times) {
    for (int i = 0; i < Math.abs(times); i++) {
      Object[] values = new Object[operator.output.size()];
      fill(values, mine, row);
      if (partner != null) fill(values, 1 - mine, partner);
      emit(times < 0 ? ResultRow.minus(values) : ResultRow.plus(values));
    }
  }

  private void fill(Object[] values, int of, byte[] bytes) {
    UnsafeRow row = reading[of];
    row.pointTo(bytes, bytes.length);
    for (int i = 0; i < places[of].length; i++) {
      if (places[of][i] >= 0) values[places[of][i]] = Value.of(row, i, schemas[of].fields()[i].dataType());
    }
  }

  @Override
  void settle() {}
}
