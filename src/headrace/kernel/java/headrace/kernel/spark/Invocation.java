package headrace.kernel.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.Seq;

/**
 * A method of a kernel object as a column: Spark's generated code calls it with its own internal
 * values, so nothing is converted, and real-time mode takes it, because to Spark it is an ordinary
 * projection.
 */
final class Invocation {
  private Invocation() {}

  /**
   * A method that gives the same for the same arguments; a null argument gives null without a call.
   */
  static Column of(Serializable target, String method, DataType type, Column... arguments) {
    return column(target, method, type, true, arguments);
  }

  /** A method with effects: called exactly once a row, in its place, with nulls too. */
  static Column effect(Serializable target, String method, DataType type, Column... arguments) {
    return column(target, method, type, false, arguments);
  }

  private static Column column(
      Serializable target, String method, DataType type, boolean pure, Column... arguments) {
    List<Expression> expressions =
        Arrays.stream(arguments).map(ExpressionUtils::expression).toList();
    return ExpressionUtils.column(
        new Invoke(
            Literal.fromObject(target, new ObjectType(target.getClass())),
            method,
            type,
            seq(expressions),
            Invocation.<AbstractDataType>seq(List.of()),
            pure,
            true,
            pure));
  }

  /** The list as Spark takes it. */
  static <T> Seq<T> seq(List<T> list) {
    return scala.collection.immutable.List.from(
        scala.jdk.javaapi.CollectionConverters.asScala(list));
  }
}
