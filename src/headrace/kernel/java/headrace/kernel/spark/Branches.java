package headrace.kernel.spark;

import headrace.kernel.decode.RecordDecoder;
import headrace.kernel.time.SourceClock;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Tells the branches of a query apart that read the same topic, as the two sides of a union may.
 *
 * <p><b>Each has a number,</b> which goes into what its tasks and its rows are called (`Origin`).
 * Under one name the one task would take the batch of the other for its own, written already, and
 * two rows of one record for one that came twice.
 *
 * <p><b>Each has a read of its own,</b> with its own place in the topic and its own clock, also
 * where a function has used one input twice: real-time mode takes no source twice, and where one
 * branch is ahead of the other, as after a live run, one place and one time would not be true of
 * both.
 */
public final class Branches {
  private Branches() {}

  /** The rows of the whole plan of a query, with numbers where a topic is read more than once. */
  public static Dataset<Row> apart(Dataset<Row> rows) {
    LogicalPlan plan = ((org.apache.spark.sql.classic.Dataset<Row>) rows).logicalPlan();
    LogicalPlan numbered = plan.transformUp(new Numbering(rows.sparkSession().sparkContext()));
    if (numbered == plan) return rows;
    return org.apache.spark.sql.classic.Dataset.ofRows(
        (org.apache.spark.sql.classic.SparkSession) rows.sparkSession(), numbered);
  }

  private static RecordDecoder decoder(Expression of) {
    return of instanceof Literal literal && literal.value() instanceof RecordDecoder decoder
        ? decoder
        : null;
  }

  /**
   * Gives every decoder of a topic in the plan its own number, and every read after the first one
   * its own source.
   */
  private static final class Numbering extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final SparkContext context;
    private final Map<String, Integer> next = new HashMap<>();
    private final Set<StreamingRelationV2> read = new HashSet<>();
    private final Set<SourceClock> told = new HashSet<>();

    /**
     * The clock of a branch that is not the first with it, by that clock, from its decoder up to
     * where it is followed.
     */
    private final Map<SourceClock, SourceClock> anew = new HashMap<>();

    Numbering(SparkContext context) {
      this.context = context;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan plan) {
      return plan instanceof Project
          || plan instanceof StreamingRelationV2
          || plan instanceof EventTimeWatermark;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      if (plan instanceof StreamingRelationV2 source)
        return read.add(source) ? source : again(source);
      if (plan instanceof EventTimeWatermark watermark) return Watermark.following(watermark, anew);
      return plan.transformExpressions(
          new AbstractPartialFunction<Expression, Expression>() {
            @Override
            public boolean isDefinedAt(Expression of) {
              return decoder(of) != null;
            }

            @Override
            public Expression apply(Expression of) {
              RecordDecoder decoder = decoder(of);
              int number = next.merge(decoder.topic(), 1, Integer::sum) - 1;
              SourceClock clock = decoder.clock();
              if (clock != null && !told.add(clock))
                anew.put(clock, clock = clock.another(context));
              return number == 0
                  ? of
                  : Literal.fromObject(decoder.of(number, clock), of.dataType());
            }
          });
    }

    /**
     * Another read of a source; its columns are known by the names that the plan has for those of
     * the first.
     */
    private static LogicalPlan again(StreamingRelationV2 source) {
      LogicalPlan other = source.newInstance();
      List<NamedExpression> columns = new ArrayList<>();
      Iterator<Attribute> read = CollectionConverters.asJava(other.output()).iterator();
      Seq<String> nowhere = Invocation.seq(List.of());
      for (Attribute known : CollectionConverters.asJava(source.output())) {
        columns.add(
            new Alias(
                (Expression) read.next(),
                known.name(),
                known.exprId(),
                nowhere,
                Option.empty(),
                nowhere));
      }
      return new Project(Invocation.seq(columns), other);
    }
  }
}
