package headrace.kernel;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Two selections of the same rows, taken from them in one pass.
 *
 * <p>A union of two selections would read and decode what they have in common twice, and real-time mode takes no source twice.
 * So each row is held against both selections where it passes, with Spark's own {@link Expand}.
 */
public final class OnePass {
  private OnePass() {}

  /** What is selected of common rows: the columns, and the condition, which is null when there is none. */
  private record Selection(List<NamedExpression> columns, Expression condition, LogicalPlan base) {
    boolean isPure() {
      return (condition == null || condition.deterministic())
          && columns.stream().allMatch(one -> expression(one).deterministic());
    }

    /** A column, or null where the condition does not hold: what is costly is not reckoned for nothing. */
    Expression guarded(NamedExpression column) {
      Expression value = expression(column);
      return condition == null || value instanceof Attribute ? value : new If(condition, value, none(value.dataType()));
    }
  }

  /**
   * The rows of both selections: in `side` 0 or 1, then the columns of the left one under numbered names, then those of the
   * right one; null in those of the other side. Null when they are not selections of the same rows.
   */
  public static Dataset<Row> rows(Dataset<Row> left, Dataset<Row> right, String side, String[] names) {
    Selection one = selection(left), other = selection(right);
    if (!one.base.fastEquals(other.base) || !one.isPure() || !other.isPure()) return null;
    String keep = side + "_keep";
    List<Attribute> output = new ArrayList<>();
    output.add(attribute(keep, DataTypes.BooleanType));
    output.add(attribute(side, DataTypes.IntegerType));
    List<Expression> ours = projection(one, 0), theirs = projection(other, 1);
    for (int i = 0; i < one.columns.size(); i++) {
      output.add(attribute(names[0] + i, ours.get(i + 2).dataType()));
      theirs.add(i + 2, none(ours.get(i + 2).dataType()));
    }
    for (int i = 0; i < other.columns.size(); i++) {
      DataType type = theirs.get(one.columns.size() + i + 2).dataType();
      output.add(attribute(names[1] + i, type));
      ours.add(none(type));
    }
    LogicalPlan common = one.base;
    if (one.condition != null && other.condition != null) common = new Filter(new Or(one.condition, other.condition), common);
    List<Seq<Expression>> projections = List.of(Invocation.seq(ours), Invocation.seq(theirs));
    LogicalPlan both = new Expand(Invocation.seq(projections), Invocation.seq(output), common);
    Dataset<Row> rows = org.apache.spark.sql.classic.Dataset.ofRows(
        (org.apache.spark.sql.classic.SparkSession) left.sparkSession(), both);
    return rows.where(PackedRow.column(keep)).drop(keep);
  }

  private static Selection selection(Dataset<Row> rows) {
    var found = PhysicalOperation.unapply(((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan()).get();
    Expression condition = null;
    for (Expression one : CollectionConverters.asJava(found._2())) condition = condition == null ? one : new And(condition, one);
    return new Selection(List.copyOf(CollectionConverters.asJava(found._1())), condition, found._3());
  }

  private static List<Expression> projection(Selection of, int side) {
    List<Expression> all = new ArrayList<>();
    all.add(of.condition == null ? Literal.create(true, DataTypes.BooleanType) : of.condition);
    all.add(Literal.create(side, DataTypes.IntegerType));
    for (NamedExpression column : of.columns) all.add(of.guarded(column));
    return all;
  }

  /** What an alias names, or the column itself. */
  private static Expression expression(NamedExpression column) {
    return column instanceof Alias alias ? alias.child() : (Expression) column;
  }

  private static Expression none(DataType type) {
    return Literal.create(null, type);
  }

  private static Attribute attribute(String name, DataType type) {
    Seq<String> nowhere = Invocation.seq(List.of());
    return new AttributeReference(name, type, true, Metadata.empty(), NamedExpression.newExprId(), nowhere);
  }
}
