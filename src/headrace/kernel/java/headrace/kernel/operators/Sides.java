package headrace.kernel.operators;

import headrace.kernel.state.Key;
import headrace.kernel.state.PackedRow;
import headrace.kernel.state.Value;
import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;

/**
 * The two sides of a join: of which one a message is, and the rows that are made of a row and its
 * partner.
 *
 * <p>Messages hold the side, the key and the row of that side packed; operators/sides.py writes
 * them so.
 */
final class Sides implements Serializable {
  private static final long serialVersionUID = 1L;
  static final int LEFT = 0;
  static final int RIGHT = 1;

  final StructType[] schemas = new StructType[2];

  /** Whether the rows of a side come out without a partner, too. */
  final boolean[] whole = new boolean[2];

  private final int[][] places = new int[2][];
  private final int side;
  private final int packed;
  private final int columns;
  private final int keys;
  private transient UnsafeRow[] reading;
  private transient UnsafeRow key;

  /** What the options of every join have. */
  interface Options extends OperatorOptions {
    /** The column that says of which side a row is. */
    String side();

    /** The column that says whether a row comes or goes. */
    String sign();

    /** The columns of each side, as DDL. */
    List<String> sides();

    /** Of each side where its columns are in a result. */
    List<List<Integer>> places();

    /** Of each side whether its rows come out without a partner, too. */
    List<Boolean> whole();
  }

  Sides(Operator operator, Options options) {
    side = operator.input.fieldIndex(options.side());
    packed = operator.input.fieldIndex(PackedRow.COLUMN);
    columns = operator.output.size();
    keys = operator.key.size();
    for (int i = 0; i < 2; i++) {
      schemas[i] = StructType.fromDDL(options.sides().get(i));
      whole[i] = options.whole().get(i);
      places[i] = options.places().get(i).stream().mapToInt(Integer::intValue).toArray();
    }
  }

  int of(UnsafeRow message) {
    return message.getInt(side);
  }

  byte[] packed(UnsafeRow message) {
    return message.getBinary(packed);
  }

  /** Whether a column of the key is null, so that it is equal to nothing. */
  boolean hasNull(Key of) {
    if (key == null) key = new UnsafeRow(keys);
    key.pointTo(of.bytes, of.bytes.length);
    return key.anyNull();
  }

  /** A row of a side as it was packed; until the next one of that side is read. */
  UnsafeRow read(int side, byte[] bytes) {
    if (reading == null)
      reading =
          new UnsafeRow[] {
            new UnsafeRow(schemas[LEFT].size()), new UnsafeRow(schemas[RIGHT].size())
          };
    reading[side].pointTo(bytes, bytes.length);
    return reading[side];
  }

  /** The result of a row of a side with one of the other, or with none. */
  Object[] result(int mine, byte[] row, byte[] partner) {
    Object[] values = new Object[columns];
    fill(values, mine, row);
    if (partner != null) fill(values, 1 - mine, partner);
    return values;
  }

  private void fill(Object[] values, int of, byte[] bytes) {
    UnsafeRow row = read(of, bytes);
    for (int i = 0; i < places[of].length; i++) {
      values[places[of][i]] = Value.of(row, i, schemas[of].fields()[i].dataType());
    }
  }
}
