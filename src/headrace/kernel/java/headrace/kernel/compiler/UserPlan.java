package headrace.kernel.compiler;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
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
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownNotNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NullsFirst$;
import org.apache.spark.sql.catalyst.expressions.RowNumber;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation$;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Offset;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * What a user's query is made of, told to the compiler in Python, and its expressions over the rows
 * that the compiler builds.
 *
 * <p>Every attribute of the plan has a number, in the order in which it is met, and the compiler
 * calls its column `c` and the number: Spark's own numbers are others after a restart. The
 * description is a tree of nodes; expressions in it are numbers, too, by which {@link #select} and
 * {@link #filter} know them.
 */
public final class UserPlan {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final SparkSession session;
  private final Map<ExprId, Integer> numbers = new HashMap<>();
  private final List<Expression> expressions = new ArrayList<>();
  private final List<LogicalPlan> nodes = new ArrayList<>();
  private final ObjectNode description;

  /** The clock or chance in the query, which give another value each time, as SQL; null without. */
  private String moving;

  public UserPlan(Dataset<Row> rows) {
    session = (SparkSession) rows.sparkSession();
    LogicalPlan plan =
        ((org.apache.spark.sql.classic.Dataset<Row>) rows).queryExecution().analyzed();
    plan = plan.transformUpWithSubqueries(new Signs());
    look(plan);
    LogicalPlan plain = Rules.plain(session, plan);
    description = JSON.createObjectNode();
    description.put("moving", moving);
    description.set("plan", node(plain));
    ArrayNode columns = description.putArray("columns");
    for (Attribute one : list(plain.output())) {
      ObjectNode column = columns.addObject();
      column.put("name", one.name());
      column.put("number", number(one));
    }
  }

  /** The description as JSON. */
  public String description() {
    return description.toString();
  }

  /**
   * Looks for what is another one each time it is computed, before a rule puts the value of the
   * moment in its place.
   */
  private void look(LogicalPlan plan) {
    for (Expression of : list(plan.expressions())) {
      if (moving != null) return;
      Option<Expression> found =
          of.find(one -> !one.deterministic() || one.containsPattern(TreePattern.CURRENT_LIKE()));
      if (found.isDefined()) moving = found.get().sql();
    }
    for (LogicalPlan below : list(plan.children())) look(below);
    for (LogicalPlan below : list(plan.subqueries())) look(below);
  }

  /** To a query every row of a table is there, so the sign that it is given is always the same. */
  private static final class Signs extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return Placeholder.name(plan) != null
          && list(plan.output()).stream().anyMatch(Placeholder::isSign);
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      LogicalRDD leaf = ((LogicalRDD) plan).newInstance();
      List<NamedExpression> columns = new ArrayList<>();
      Iterator<Attribute> read = list(leaf.output()).iterator();
      for (Attribute one : list(plan.output())) {
        Attribute other = read.next();
        Expression value = Placeholder.isSign(one) ? Literal.create("+", one.dataType()) : other;
        columns.add(
            new Alias(
                value, one.name(), one.exprId(), seq(List.of()), Option.empty(), seq(List.of())));
      }
      return new Project(seq(columns), leaf);
    }
  }

  // The description

  private ObjectNode node(LogicalPlan plan) {
    if (plan instanceof SubqueryAlias alias) return node(alias.child());
    if (plan instanceof Sort sort) return node(sort.child()); // the rows of a table have no order
    ObjectNode told = JSON.createObjectNode();
    nodes.add(plan);
    told.put("id", nodes.size() - 1);
    told.put("text", plan.simpleString(200));
    String name = Placeholder.name(plan);
    if (name != null) {
      told.put("node", "input").put("name", name);
      ArrayNode columns = told.putArray("columns");
      for (Attribute one : list(plan.output())) {
        if (!Placeholder.isSign(one))
          columns.addObject().put("name", one.name()).put("number", number(one));
      }
    } else if (plan instanceof Project project) {
      told.put("node", "project");
      told.set("child", node(project.child()));
      outputs(told.putArray("columns"), list(project.projectList()), told);
    } else if (plan instanceof Filter filter) {
      told.put("node", "filter");
      told.set("child", node(filter.child()));
      told.put("condition", expression(filter.condition(), told));
      told.put("sql", filter.condition().sql());
      if (filter.child() instanceof Window window)
        told.put("places", places(window, filter.condition()));
    } else if (plan instanceof Join join) {
      join(told, join);
    } else if (plan instanceof Aggregate) {
      aggregate(told, plan);
    } else if (plan instanceof Union union) {
      told.put("node", "union");
      ArrayNode children = told.putArray("children");
      for (LogicalPlan child : list(union.children())) {
        ObjectNode part = children.addObject();
        part.set("plan", node(child));
        attributes(part.putArray("columns"), child);
      }
      attributes(told.putArray("columns"), plan);
    } else if (plan instanceof Distinct distinct) {
      told.put("node", "distinct");
      told.set("child", node(distinct.child()));
      attributes(told.putArray("columns"), plan);
    } else if (plan instanceof Deduplicate dedupe) {
      told.put("node", "first");
      told.set("child", node(dedupe.child()));
      attributes(told.putArray("columns"), plan);
      ArrayNode keys = told.putArray("keys");
      for (Attribute key : list(dedupe.keys())) keys.add(number(key));
    } else if (plan instanceof GlobalLimit limit) {
      limit(told, limit);
    } else if (plan instanceof Generate generate) {
      told.put("node", "generate");
      told.set("child", node(generate.child()));
      attributes(told.putArray("columns"), plan);
    } else if (plan instanceof Expand expand) {
      told.put("node", "expand");
      told.set("child", node(expand.child()));
      attributes(told.putArray("columns"), plan);
    } else if (plan instanceof Window window) {
      window(told, window);
    } else {
      told.put("node", "unknown").put("name", plan.nodeName());
    }
    return told;
  }

  private void join(ObjectNode told, Join join) {
    told.put("node", "join");
    told.put("how", join.joinType() instanceof ExistenceJoin ? "exists" : join.joinType().sql());
    told.set("left", node(join.left()));
    told.set("right", node(join.right()));
    attributes(told.putArray("left_columns"), join.left());
    attributes(told.putArray("right_columns"), join.right());
    if (join.joinType() instanceof ExistenceJoin exists)
      told.put("exists", number(exists.exists()));
    var keys = ExtractEquiJoinKeys$.MODULE$.unapply(join);
    ArrayNode left = told.putArray("left_keys"), right = told.putArray("right_keys");
    Option<Expression> rest = join.condition();
    if (keys.isDefined()) {
      keyed(left, list(keys.get()._2()), told);
      keyed(right, list(keys.get()._3()), told);
      rest = keys.get()._4();
    }
    told.put("rest", rest.isDefined() ? expression(rest.get(), told) : null);
    told.put("sql", join.condition().isDefined() ? join.condition().get().sql() : null);
  }

  private void keyed(ArrayNode keys, List<Expression> of, ObjectNode told) {
    for (Expression key : of) value(keys.addObject(), key, told);
  }

  /** An expression: its number, its type, and that of the attribute that it is, if it is one. */
  private void value(ObjectNode to, Expression of, ObjectNode told) {
    to.put("expression", expression(of, told));
    to.put("type", of.dataType().sql());
    to.put("attribute", of instanceof AttributeReference one ? number(one) : null);
    to.put("sql", of.sql());
  }

  private void aggregate(ObjectNode told, LogicalPlan plan) {
    var parts = PhysicalAggregation$.MODULE$.unapply(plan);
    if (!parts.isDefined()) {
      told.put("node", "unknown").put("name", "an aggregate in Python");
      return;
    }
    told.put("node", "aggregate");
    told.set("child", node(parts.get()._4()));
    ArrayNode groups = told.putArray("groups");
    for (NamedExpression one : list(parts.get()._1())) {
      ObjectNode group = groups.addObject();
      group.put("number", number(one.toAttribute()));
      value(group, plain(one), told);
      group.put("session", one.metadata().contains("spark.sessionWindow"));
      if (plain(one).dataType() instanceof StructType struct) {
        ArrayNode fields = group.putArray("fields");
        for (String field : struct.fieldNames()) fields.add(field);
      }
    }
    ArrayNode aggregates = told.putArray("aggregates");
    for (AggregateExpression one : list(parts.get()._2())) {
      ObjectNode aggregate = aggregates.addObject();
      aggregate.put("number", number(one.resultAttribute()));
      aggregate.put("function", one.aggregateFunction().getClass().getSimpleName());
      aggregate.put("type", one.dataType().sql());
      aggregate.put("distinct", one.isDistinct());
      aggregate.put("sql", one.sql());
      aggregate.put(
          "filter", one.filter().isDefined() ? expression(one.filter().get(), told) : null);
      ArrayNode inputs = aggregate.putArray("inputs");
      for (Expression input : list(one.aggregateFunction().children()))
        value(inputs.addObject(), input, told);
    }
    outputs(told.putArray("columns"), list(parts.get()._3()), told);
  }

  private void limit(ObjectNode told, GlobalLimit limit) {
    told.put("node", "limit");
    told.put("most", ((Number) limit.limitExpr().eval(null)).intValue());
    LogicalPlan child = limit.child();
    int skip = 0;
    if (child instanceof LocalLimit local) child = local.child();
    if (child instanceof Offset offset) {
      skip = ((Number) offset.offsetExpr().eval(null)).intValue();
      child = offset.child();
    }
    told.put("skip", skip);
    // What is projected behind a sort is ranked before it: the columns that it is ordered by may be
    // gone.
    Project behind =
        child instanceof Project project && project.child() instanceof Sort ? project : null;
    if (behind != null) child = behind.child();
    List<SortOrder> order = List.of();
    if (child instanceof Sort sort) {
      order = list(sort.order());
      child = sort.child();
    }
    told.set("child", node(child));
    attributes(told.putArray("columns"), child);
    orders(told.putArray("order"), order, told);
    if (behind == null) told.putNull("projected");
    else outputs(told.putArray("projected"), list(behind.projectList()), told);
  }

  private void window(ObjectNode told, Window window) {
    told.put("node", "window");
    told.set("child", node(window.child()));
    attributes(told.putArray("columns"), window.child());
    ArrayNode partition = told.putArray("partition");
    keyed(partition, list(window.partitionSpec()), told);
    orders(told.putArray("order"), list(window.orderSpec()), told);
    ArrayNode functions = told.putArray("functions");
    for (NamedExpression one : list(window.windowExpressions())) {
      ObjectNode function = functions.addObject();
      function.put("number", number(one.toAttribute()));
      function.put("sql", plain(one).sql());
      function.put(
          "function",
          plain(one) instanceof WindowExpression of
              ? of.windowFunction().getClass().getSimpleName()
              : "");
    }
  }

  private void orders(ArrayNode to, List<SortOrder> orders, ObjectNode told) {
    for (SortOrder one : orders) {
      ObjectNode order = to.addObject();
      value(order, one.child(), told);
      order.put("ascending", one.isAscending());
      order.put("nulls_first", one.nullOrdering() == NullsFirst$.MODULE$);
    }
  }

  /**
   * The most rows of a partition that a condition leaves of `row_number()`; null when there is no
   * such bound.
   */
  private static Integer places(Window window, Expression condition) {
    List<NamedExpression> functions = list(window.windowExpressions());
    if (functions.size() != 1 || !(plain(functions.get(0)) instanceof WindowExpression one))
      return null;
    if (!(one.windowFunction() instanceof RowNumber)) return null;
    return most(condition, functions.get(0).exprId());
  }

  private static Integer most(Expression condition, ExprId place) {
    if (condition instanceof And and) {
      Integer left = most(and.left(), place), right = most(and.right(), place);
      return left == null ? right : right == null ? left : (Integer) Math.min(left, right);
    }
    boolean bounds =
        condition instanceof EqualTo
            || condition instanceof LessThanOrEqual
            || condition instanceof LessThan;
    if (!bounds
        || !(list(condition.children()).get(0) instanceof Attribute of)
        || !of.exprId().equals(place)) return null;
    if (!(list(condition.children()).get(1) instanceof Literal bound)
        || !(bound.value() instanceof Number number)) return null;
    return number.intValue() - (condition instanceof LessThan ? 1 : 0);
  }

  private void attributes(ArrayNode to, LogicalPlan of) {
    for (Attribute one : list(of.output())) to.add(number(one));
  }

  private void outputs(ArrayNode to, List<NamedExpression> columns, ObjectNode told) {
    for (NamedExpression one : columns) {
      ObjectNode column = to.addObject();
      column.put("number", number(one.toAttribute()));
      column.put("name", one.name());
      value(column, plain(one), told);
    }
  }

  private int number(Attribute of) {
    return numbers.computeIfAbsent(of.exprId(), id -> numbers.size());
  }

  /**
   * The number of an expression of a node; scalar subqueries in it become columns that the node is
   * told of.
   */
  private int expression(Expression of, ObjectNode told) {
    List<ScalarSubquery> found = new ArrayList<>();
    Expression without =
        of.transformUp(
            new AbstractPartialFunction<Expression, Expression>() {
              @Override
              public boolean isDefinedAt(Expression one) {
                return one instanceof ScalarSubquery;
              }

              @Override
              public Expression apply(Expression one) {
                found.add((ScalarSubquery) one);
                return value((ScalarSubquery) one);
              }
            });
    for (ScalarSubquery one : found) {
      ObjectNode scalar = told.withArray("scalars").addObject();
      scalar.put("number", number(value(one)));
      scalar.put("correlated", !list(one.outerAttrs()).isEmpty());
      LogicalPlan plain = Rules.plain(session, one.plan());
      boolean single =
          plain.maxRows().isDefined() && ((Number) plain.maxRows().get()).longValue() <= 1;
      scalar.put("single", single);
      scalar.set("plan", node(plain));
      attributes(scalar.putArray("columns"), plain);
    }
    expressions.add(without);
    return expressions.size() - 1;
  }

  /** The column that stands for a scalar subquery. */
  private static Attribute value(ScalarSubquery of) {
    return new AttributeReference(
        "scalar",
        of.dataType(),
        true,
        org.apache.spark.sql.types.Metadata.empty(),
        of.exprId(),
        seq(List.of()));
  }

  // Expressions over rows

  /** Columns of rows: expressions of the plan under new names, and columns that are kept. */
  public Dataset<Row> select(Dataset<Row> rows, String[] names, int[] wanted, String[] kept) {
    Map<String, Attribute> known = columns(rows);
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < names.length; i++)
      columns.add(alias(bound(expressions.get(wanted[i]), known), names[i]));
    for (String name : kept) columns.add(known.get(name));
    return of(new Project(seq(columns), plan(rows)));
  }

  /** The rows for which a condition of the plan is true. */
  public Dataset<Row> filter(Dataset<Row> rows, int condition) {
    return of(new Filter(bound(expressions.get(condition), columns(rows)), plan(rows)));
  }

  /**
   * The rows of a node that makes several of each one, with the columns of its own and those that
   * are kept.
   */
  public Dataset<Row> several(Dataset<Row> rows, int node, String[] kept) {
    Map<String, Attribute> known = columns(rows);
    List<Attribute> carried = new ArrayList<>();
    for (String name : kept) carried.add(known.get(name));
    return nodes.get(node) instanceof Generate generate
        ? generated(rows, generate, known, carried)
        : expanded(rows, (Expand) nodes.get(node), known, carried);
  }

  private Dataset<Row> generated(
      Dataset<Row> rows, Generate generate, Map<String, Attribute> known, List<Attribute> carried) {
    var generator =
        (org.apache.spark.sql.catalyst.expressions.Generator)
            bound((Expression) generate.generator(), known);
    List<Attribute> made = new ArrayList<>();
    Map<ExprId, Attribute> fresh = new HashMap<>();
    for (Attribute one : list(generate.generatorOutput())) {
      Attribute other = fresh(one.name(), one.dataType());
      made.add(other);
      fresh.put(one.exprId(), other);
    }
    LogicalPlan all =
        new Generate(
            generator, seq(List.of()), generate.outer(), Option.empty(), seq(made), plan(rows));
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute one : list(generate.output())) {
      Attribute of =
          fresh.containsKey(one.exprId()) ? fresh.get(one.exprId()) : known.get(name(one));
      columns.add(alias(of, name(one)));
    }
    columns.addAll(carried);
    return of(new Project(seq(columns), all));
  }

  private Dataset<Row> expanded(
      Dataset<Row> rows, Expand expand, Map<String, Attribute> known, List<Attribute> carried) {
    List<Seq<Expression>> projections = new ArrayList<>();
    for (Seq<Expression> one : list(expand.projections())) {
      List<Expression> all = new ArrayList<>();
      for (Expression of : list(one)) all.add(bound(of, known));
      all.addAll(carried);
      projections.add(seq(all));
    }
    List<Attribute> made = new ArrayList<>();
    for (Attribute one : list(expand.output())) made.add(fresh(name(one), one.dataType()));
    for (Attribute one : carried) made.add(fresh(one.name(), one.dataType()));
    return of(new Expand(seq(projections), seq(made), plan(rows)));
  }

  private static Attribute fresh(String name, DataType type) {
    return new AttributeReference(
        name,
        type,
        true,
        org.apache.spark.sql.types.Metadata.empty(),
        NamedExpression.newExprId(),
        seq(List.of()));
  }

  /**
   * An expression whose attributes are columns of rows; it was made for ones that are not null,
   * where they are not.
   */
  private Expression bound(Expression of, Map<String, Attribute> known) {
    return of.transformUp(
        new AbstractPartialFunction<Expression, Expression>() {
          @Override
          public boolean isDefinedAt(Expression one) {
            return one instanceof Attribute attribute && numbers.containsKey(attribute.exprId());
          }

          @Override
          public Expression apply(Expression one) {
            Attribute found = known.get(name((Attribute) one));
            if (found == null)
              throw new IllegalStateException("no column for " + one + " among " + known.keySet());
            return !one.nullable() && found.nullable() ? new KnownNotNull(found) : found;
          }
        });
  }

  private String name(Attribute of) {
    return "c" + numbers.get(of.exprId());
  }

  private Dataset<Row> of(LogicalPlan plan) {
    return org.apache.spark.sql.classic.Dataset.ofRows(session, plan);
  }

  private static LogicalPlan plan(Dataset<Row> rows) {
    return ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan();
  }

  private static Map<String, Attribute> columns(Dataset<Row> rows) {
    Map<String, Attribute> found = new HashMap<>();
    for (Attribute one : list(plan(rows).output())) found.put(one.name(), one);
    return found;
  }

  private static Expression plain(NamedExpression of) {
    return of instanceof Alias alias ? alias.child() : (Expression) of;
  }

  private static Alias alias(Expression of, String name) {
    return new Alias(
        of, name, NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of()));
  }

  private static <T> List<T> list(scala.collection.Seq<T> of) {
    return CollectionConverters.asJava(of);
  }

  private static <T> Seq<T> seq(List<T> of) {
    return scala.collection.immutable.List.from(CollectionConverters.asScala(of));
  }
}
