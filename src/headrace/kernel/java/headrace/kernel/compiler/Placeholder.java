package headrace.kernel.compiler;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SetOperation;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractPartialFunction;

/**
 * A DataFrame without rows that stands for another one: a user's query is written over it, and the
 * compiler finds it again in the plan by its name. No rule of Spark's folds it away, as it would an
 * empty relation.
 */
public final class Placeholder {
  private static final String PREFIX = "headrace:";

  private Placeholder() {}

  /**
   * One of this name, with these columns. As a stream it cannot be counted or collected, which
   * would give the answer of no rows; and it cannot be in a subquery.
   */
  public static Dataset<Row> of(
      org.apache.spark.sql.SparkSession session,
      String name,
      StructType columns,
      boolean streaming) {
    SparkSession classic = (SparkSession) session;
    RDD<InternalRow> none =
        classic.sparkContext().emptyRDD(ClassTag$.MODULE$.apply(InternalRow.class));
    none.setName(PREFIX + name);
    return classic.internalCreateDataFrame(none, columns, streaming);
  }

  /** The names of the placeholders that rows are made of, a line each. */
  public static String names(Dataset<Row> rows) {
    Set<String> found = new TreeSet<>();
    look(plan(rows), found);
    return String.join("\n", found);
  }

  private static void look(LogicalPlan plan, Set<String> found) {
    String name = name(plan);
    if (name != null) found.add(name);
    for (LogicalPlan below : CollectionConverters.asJava(plan.children())) look(below, found);
    for (LogicalPlan below : CollectionConverters.asJava(plan.subqueries())) look(below, found);
  }

  /** The rows with the frames in the place of their placeholders, which have the same columns. */
  public static Dataset<Row> resolved(Dataset<Row> rows, String[] names, Dataset<Row>[] frames) {
    Map<String, LogicalPlan> known = new HashMap<>();
    for (int i = 0; i < names.length; i++) known.put(names[i], plan(frames[i]));
    LogicalPlan whole =
        plan(rows)
            .transformUp(
                new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
                  @Override
                  public boolean isDefinedAt(LogicalPlan one) {
                    return name(one) != null;
                  }

                  @Override
                  public LogicalPlan apply(LogicalPlan one) {
                    return named(known.get(name(one)), one.output());
                  }
                });
    return org.apache.spark.sql.classic.Dataset.ofRows((SparkSession) rows.sparkSession(), whole);
  }

  /** The columns of a plan as somebody else knows them. */
  private static LogicalPlan named(LogicalPlan plan, Seq<Attribute> as) {
    Seq<String> nowhere =
        scala.collection.immutable.List.from(CollectionConverters.asScala(List.<String>of()));
    Map<String, Attribute> columns = new HashMap<>();
    for (Attribute one : CollectionConverters.asJava(plan.output())) columns.put(one.name(), one);
    List<NamedExpression> named = new ArrayList<>();
    for (Attribute one : CollectionConverters.asJava(as)) {
      named.add(
          new Alias(
              columns.get(one.name()), one.name(), one.exprId(), nowhere, Option.empty(), nowhere));
    }
    return new Project(
        scala.collection.immutable.List.from(CollectionConverters.asScala(named)), plan);
  }

  /**
   * Whether a plan treats each row for itself, but for the operators of Headrace; a join, a group
   * or a ranking does not.
   */
  public static boolean isPlain(Dataset<Row> rows) {
    return isPlain(plan(rows));
  }

  private static boolean isPlain(LogicalPlan plan) {
    boolean more =
        plan instanceof Join
            || plan instanceof Aggregate
            || plan instanceof Distinct
            || plan instanceof Window
            || plan instanceof GlobalLimit
            || plan instanceof SetOperation
            || !CollectionConverters.asJava(plan.subqueries()).isEmpty()
            || (plan instanceof Deduplicate && isOfTable(plan));
    return !more
        && CollectionConverters.asJava(plan.children()).stream().allMatch(Placeholder::isPlain);
  }

  /** Whether rows that may go again are below. */
  private static boolean isOfTable(LogicalPlan plan) {
    return CollectionConverters.asJava(plan.output()).stream().anyMatch(Placeholder::isSign)
        || CollectionConverters.asJava(plan.children()).stream().anyMatch(Placeholder::isOfTable);
  }

  /** Whether a column says whether a row comes or goes. */
  static boolean isSign(Attribute column) {
    return column.name().equals("change") && column.dataType() instanceof StringType;
  }

  private static LogicalPlan plan(Dataset<Row> rows) {
    return ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan();
  }

  /** The name of the placeholder that a plan is; null when it is none. */
  static String name(LogicalPlan plan) {
    String name = plan instanceof LogicalRDD leaf ? leaf.rdd().name() : null;
    return name != null && name.startsWith(PREFIX) ? name.substring(PREFIX.length()) : null;
  }

  /**
   * The rows that a SQL text asks for, over placeholders by name. The text is read in a session of
   * its own, so that a name in it is an input, and never a table that somebody else has made here.
   */
  public static Dataset<Row> query(
      org.apache.spark.sql.SparkSession session,
      String text,
      String[] names,
      Dataset<Row>[] inputs) {
    SparkSession own = ((SparkSession) session).cloneSession();
    for (int i = 0; i < names.length; i++) {
      org.apache.spark.sql.classic.Dataset.ofRows(own, plan(inputs[i]))
          .createOrReplaceTempView('`' + names[i].replace("`", "``") + '`');
    }
    return org.apache.spark.sql.classic.Dataset.ofRows((SparkSession) session, plan(own.sql(text)));
  }
}
