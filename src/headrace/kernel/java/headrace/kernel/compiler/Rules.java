package headrace.kernel.compiler;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.CreateArray;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.PivotFirst;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.rules.RuleExecutor;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Spark's own rules that make a plan plain: subqueries become joins, filters and columns move down
 * to where rows are read, set operations become joins and aggregates.
 *
 * <p>Left out is what looks at the rows that are there at the moment, what prepares a physical plan
 * of a batch, and what takes Python's functions out of their place.
 */
final class Rules {
  private static final int MOST = 100;

  /**
   * What was nested in a subquery is a join after the first time, and is made plain in the second.
   */
  private static final int ROUNDS = 2;

  private static final Set<String> LEFT_OUT =
      Set.of(
          // look at the rows of the moment
          "ConvertToLocalRelation",
          "PropagateEmptyRelation",
          "OptimizeOneRowPlan",
          // prepare physical plans of a batch
          "RewriteDistinctAggregates",
          "OptimizeExpand",
          "DecimalAggregates",
          "ReplaceDeduplicateWithAggregate",
          "MergeSubplans",
          "InjectRuntimeFilter",
          "PartitionPruning",
          "InferWindowGroupLimit",
          "LimitPushDown",
          "LimitPushDownThroughWindow",
          "ReplaceCTERefWithRepartition",
          "MarkSingleTaskExecution",
          "CostBasedJoinReorder",
          "PushDownJoinThroughUnion",
          "RowLevelOperationRuntimeGroupFiltering",
          "CheckCartesianProducts",
          // calls the whole optimizer for the plans of subqueries, which are made plain when they
          // have become joins
          "OptimizeSubqueries",
          // take Python's functions out of their place
          "ExtractPythonUDFs",
          "ExtractPythonUDTFs",
          "ExtractPythonUDFFromAggregate",
          "ExtractGroupingPythonUDFFromAggregate",
          "ExtractPythonUDFFromJoinCondition");

  private Rules() {}

  /** A plan of the same meaning in fewer kinds of nodes. */
  static LogicalPlan plain(SparkSession session, LogicalPlan plan) {
    plan = plan.transformAllExpressionsWithSubqueries(new Pivots());
    for (int round = 0; round < ROUNDS; round++) plan = round(session, plan);
    return plan;
  }

  /**
   * A pivot as Spark computes it takes the first value of each column from rows of which there is
   * one at the most. So the greatest is the same, and can be kept up to date.
   */
  private static final class Pivots extends AbstractPartialFunction<Expression, Expression> {
    @Override
    public boolean isDefinedAt(Expression one) {
      return one instanceof AggregateExpression of && of.aggregateFunction() instanceof PivotFirst;
    }

    @Override
    public Expression apply(Expression one) {
      PivotFirst pivot = (PivotFirst) ((AggregateExpression) one).aggregateFunction();
      List<Expression> columns = new ArrayList<>();
      for (Object value : CollectionConverters.asJava(pivot.pivotColumnValues())) {
        Expression here =
            new EqualNullSafe(
                pivot.pivotColumn(), Literal.create(value, pivot.pivotColumn().dataType()));
        Expression of =
            new If(here, pivot.valueColumn(), Literal.create(null, pivot.valueColumn().dataType()));
        columns.add(new Max(of).toAggregateExpression());
      }
      return new CreateArray(
          scala.collection.immutable.List.from(CollectionConverters.asScala(columns)), false);
    }
  }

  private static LogicalPlan round(SparkSession session, LogicalPlan plan) {
    for (RuleExecutor<LogicalPlan>.Batch batch :
        CollectionConverters.asJava(session.sessionState().optimizer().defaultBatches())) {
      for (int i = 0, most = Math.min(batch.strategy().maxIterations(), MOST); i < most; i++) {
        LogicalPlan before = plan;
        for (Rule<LogicalPlan> rule : CollectionConverters.asJava(batch.rules())) {
          if (!LEFT_OUT.contains(name(rule))) plan = rule.apply(plan);
        }
        if (plan.fastEquals(before)) break;
      }
    }
    return plan;
  }

  private static String name(Rule<LogicalPlan> rule) {
    String name = rule.ruleName();
    name = name.endsWith("$") ? name.substring(0, name.length() - 1) : name;
    return name.substring(Math.max(name.lastIndexOf('.'), name.lastIndexOf('$')) + 1);
  }
}
