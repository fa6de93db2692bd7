package headrace.kernel.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UnaryNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Two selections of the same rows, taken from them in one pass.
 *
 * <p>A union of two selections would read and decode what they have in common twice, and real-time
 * mode takes no source twice. So each row is held against both selections where it passes, with
 * Spark's own {@link Expand}.
 */
public final class OnePass {
  private static final int LARGEST = 10_000;

  private OnePass() {}

  /** What is selected of rows: the columns, and the condition, which is null when there is none. */
  private record Selection(List<Expression> columns, Expression condition) {
    boolean isPure() {
      return (condition == null || pure(condition)) && columns.stream().allMatch(OnePass::pure);
    }

    boolean isSmall() {
      long size = condition == null ? 0 : size(condition);
      for (Expression one : columns) size += size(one);
      return size <= LARGEST;
    }

    /**
     * A column, or null where the condition does not hold: what is costly is not reckoned for
     * nothing.
     */
    Expression guarded(Expression value) {
      return condition == null || value instanceof Attribute
          ? value
          : new If(condition, value, none(value.dataType()));
    }
  }

  /**
   * The rows of both selections: in `side` 0 or 1, then the columns of the left one under numbered
   * names, then those of the right one; null in those of the other side. Null when they are not
   * selections of the same rows.
   */
  public static Dataset<Row> rows(
      Dataset<Row> left, Dataset<Row> right, String side, String[] names) {
    LogicalPlan base = common(plan(left), plan(right));
    if (base == null) return null;
    Selection one = selection(plan(left), base), other = selection(plan(right), base);
    for (Selection of : List.of(one, other)) {
      if (!of.isPure() || !of.isSmall()) return null;
    }
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
    LogicalPlan common = base;
    if (one.condition != null && other.condition != null)
      common = new Filter(new Or(one.condition, other.condition), common);
    List<Seq<Expression>> projections = List.of(Invocation.seq(ours), Invocation.seq(theirs));
    LogicalPlan both = new Expand(Invocation.seq(projections), Invocation.seq(output), common);
    Dataset<Row> rows =
        org.apache.spark.sql.classic.Dataset.ofRows(
            (org.apache.spark.sql.classic.SparkSession) left.sparkSession(), both);
    return rows.where(PackedColumns.column(keep)).drop(keep);
  }

  private static LogicalPlan plan(Dataset<Row> rows) {
    return ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan();
  }

  /**
   * The rows that both plans select from: the last of what they have in common. Null when that is
   * nothing.
   */
  private static LogicalPlan common(LogicalPlan left, LogicalPlan right) {
    for (LogicalPlan one = left; one != null; one = below(one)) {
      for (LogicalPlan other = right; other != null; other = below(other)) {
        if (one.fastEquals(other)) return one;
      }
    }
    return null;
  }

  /** What a plan selects from; null where it does more than that. */
  private static LogicalPlan below(LogicalPlan plan) {
    return plan instanceof Project || plan instanceof Filter || plan instanceof SubqueryAlias
        ? ((UnaryNode) plan).child()
        : null;
  }

  /** The projections and filters of a plan above its base, as one. */
  private static Selection selection(LogicalPlan plan, LogicalPlan base) {
    if (plan.fastEquals(base))
      return new Selection(List.copyOf(CollectionConverters.asJava(plan.output())), null);
    LogicalPlan child = below(plan);
    Selection below = selection(child, base);
    if (!below.isSmall()) return below;
    Map<ExprId, Expression> values = values(below, child);
    if (plan instanceof Project project) {
      List<Expression> columns = new ArrayList<>();
      for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
        columns.add(replaced(expression(column), values));
      }
      return new Selection(columns, below.condition);
    }
    if (plan instanceof Filter filter) {
      Expression condition = replaced(filter.condition(), values);
      return new Selection(
          below.columns, below.condition == null ? condition : new And(below.condition, condition));
    }
    return below;
  }

  /** What the columns of a plan are, told in those of its base. */
  private static Map<ExprId, Expression> values(Selection of, LogicalPlan plan) {
    Map<ExprId, Expression> values = new HashMap<>();
    Iterator<Expression> columns = of.columns.iterator();
    for (Attribute one : CollectionConverters.asJava(plan.output()))
      values.put(one.exprId(), columns.next());
    return values;
  }

  private static Expression replaced(Expression of, Map<ExprId, Expression> values) {
    return of.transformUp(
        new AbstractPartialFunction<Expression, Expression>() {
          @Override
          public boolean isDefinedAt(Expression one) {
            return one instanceof Attribute column && values.containsKey(column.exprId());
          }

          @Override
          public Expression apply(Expression one) {
            return values.get(((Attribute) one).exprId());
          }
        });
  }

  /**
   * Whether it is reckoned only where it stands: Spark takes Python's functions out, and calls them
   * for every row.
   */
  private static boolean pure(Expression of) {
    return of.deterministic()
        && !of.exists(one -> one instanceof PythonFuncExpression || one instanceof PlanExpression);
  }

  private static long size(Expression of) {
    long size = 1;
    for (Expression one : CollectionConverters.asJava(of.children())) size += size(one);
    return size;
  }

  private static List<Expression> projection(Selection of, int side) {
    List<Expression> all = new ArrayList<>();
    all.add(of.condition == null ? Literal.create(true, DataTypes.BooleanType) : of.condition);
    all.add(Literal.create(side, DataTypes.IntegerType));
    for (Expression column : of.columns) all.add(of.guarded(column));
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
    return new AttributeReference(
        name, type, true, Metadata.empty(), NamedExpression.newExprId(), nowhere);
  }
}
