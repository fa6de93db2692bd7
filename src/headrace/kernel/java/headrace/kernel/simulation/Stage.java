package headrace.kernel.simulation;

import headrace.kernel.simulation.Simulation.Run;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BindReferences$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Generator;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.SafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.plans.logical.DeserializeToObject;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.types.ObjectType;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A piece of a plan without a shuffle: what its tasks read, topics or the shards of operators, goes
 * through its steps and then to the operator behind, or out.
 */
final class Stage {
  private final Run run;
  private final Consumer<InternalRow> out;
  private final Steps steps;
  private final List<Source> sources = new ArrayList<>();
  private final List<Operator> operators = new ArrayList<>();
  private TreeMap<Integer, Task> tasks = new TreeMap<>();
  private TreeMap<Integer, Iterator<InternalRow>> rows = new TreeMap<>();

  /** What is read has come to an end for now, and not for good. */
  private static final class NothingYet extends RuntimeException {
    private static final long serialVersionUID = 1L;

    NothingYet() {
      super(null, null, false, false);
    }
  }

  private static final NothingYet NOTHING_YET = new NothingYet();

  /**
   * The steps of so many tasks: whether a task of this number has anything to do, and what it
   * gives, with objects of its own.
   */
  private record Steps(int tasks, IntPredicate busy, IntFunction<Iterator<InternalRow>> open) {
    Steps then(IntFunction<Iterator<InternalRow>> next) {
      return new Steps(tasks, busy, next);
    }
  }

  Stage(LogicalPlan plan, Run run, Consumer<InternalRow> out) {
    this.run = run;
    this.out = out;
    this.steps = steps(plan);
  }

  // A batch

  /** Begins with fresh tasks. */
  void open() {
    operators.forEach(Operator::open);
    sources.forEach(Source::empty);
    tasks = new TreeMap<>();
    rows = new TreeMap<>();
    if (run.live) for (int i = 0; i < steps.tasks; i++) begin(i);
  }

  private void begin(int number) {
    Task task = new Task(run, number, steps.tasks);
    tasks.put(number, task);
    rows.put(number, task.doing(() -> steps.open.apply(number)));
  }

  /** Puts a record where it is read. */
  void offer(KafkaRecord record) {
    for (Source source : sources) source.offer(record);
    for (Operator operator : operators) operator.below.offer(record);
  }

  /**
   * Works until there is nothing more to read. In exact mode a task without anything to do is not
   * begun.
   */
  void drain() {
    for (Operator operator : operators) operator.below.drain();
    for (int i = 0; i < steps.tasks; i++) {
      if (!run.live && steps.busy.test(i)) begin(i);
    }
    for (int i : tasks.keySet()) {
      Iterator<InternalRow> mine = rows.get(i);
      tasks
          .get(i)
          .doing(
              () -> {
                try {
                  while (mine.hasNext()) out.accept(mine.next());
                } catch (NothingYet e) {
                  // there may be more later
                }
                return null;
              });
    }
  }

  /** Ends the tasks. */
  void close() {
    operators.forEach(operator -> operator.below.close());
    tasks.values().forEach(Task::complete);
  }

  // Steps

  private Steps steps(LogicalPlan plan) {
    if (plan instanceof StreamingRelationV2 relation) return source(relation);
    if (plan instanceof TransformWithState operator) return operator(operator);
    if (plan instanceof Union union) {
      return CollectionConverters.asJava(union.children()).stream()
          .map(this::steps)
          .reduce(Stage::one)
          .orElseThrow();
    }
    LogicalPlan child =
        CollectionConverters.asJava(plan.children()).stream()
            .findFirst()
            .orElseThrow(
                () ->
                    new UnsupportedOperationException(
                        "a simulation does not know " + plan.nodeName()));
    Steps below = steps(child);
    Seq<Attribute> columns = child.output();
    if (plan instanceof EventTimeWatermark || plan instanceof SubqueryAlias) return below;
    if (plan instanceof Project project)
      return mapped(below, projection(project.projectList(), columns));
    if (plan instanceof SerializeFromObject to)
      return mapped(below, projection(to.serializer(), columns));
    if (plan instanceof DeserializeToObject from)
      return mapped(below, object(from.deserializer(), columns));
    if (plan instanceof Filter filter) return filtered(below, filter.condition(), columns);
    if (plan instanceof MapPartitions map) return called(below, map.func());
    if (plan instanceof Expand expand) return multiplied(below, expanded(expand, columns));
    if (plan instanceof Generate generate) return multiplied(below, generated(generate, columns));
    throw new UnsupportedOperationException("a simulation does not know " + plan.nodeName());
  }

  private static Steps one(Steps left, Steps right) {
    return new Steps(
        left.tasks + right.tasks,
        number ->
            number < left.tasks ? left.busy.test(number) : right.busy.test(number - left.tasks),
        number ->
            number < left.tasks ? left.open.apply(number) : right.open.apply(number - left.tasks));
  }

  private static Steps mapped(Steps below, Supplier<Function<InternalRow, InternalRow>> making) {
    return below.then(
        number -> {
          Function<InternalRow, InternalRow> made = making.get();
          Iterator<InternalRow> rows = below.open.apply(number);
          return new Iterator<>() {
            @Override
            public boolean hasNext() {
              return rows.hasNext();
            }

            @Override
            public InternalRow next() {
              return made.apply(rows.next());
            }
          };
        });
  }

  /**
   * Columns of rows, for any number of tasks. They are interpreted: to generate code for each task
   * of each batch takes longer than all the rows of a test.
   */
  private static Supplier<Function<InternalRow, InternalRow>> projection(
      Seq<?> columns, Seq<Attribute> input) {
    Shipped<Seq<Expression>> bound = bound(columns, input);
    return () -> UnsafeProjection$.MODULE$.createInterpretedObject(bound.unpacked())::apply;
  }

  private static Supplier<Function<InternalRow, InternalRow>> object(
      Expression of, Seq<Attribute> input) {
    Shipped<Seq<Expression>> bound = bound(seq(List.of(of)), input);
    return () -> {
      var made = SafeProjection$.MODULE$.createInterpretedObject(bound.unpacked());
      return row -> made.apply(row);
    };
  }

  @SuppressWarnings("unchecked")
  private static Shipped<Seq<Expression>> bound(Seq<?> columns, Seq<Attribute> input) {
    var known = org.apache.spark.sql.catalyst.expressions.package$.MODULE$.AttributeSeq(input);
    List<Expression> found = new ArrayList<>();
    for (Object one : CollectionConverters.asJava(columns)) {
      found.add(BindReferences$.MODULE$.bindReference((Expression) one, known, false));
    }
    return new Shipped<>(seq(found));
  }

  private static Steps filtered(Steps below, Expression condition, Seq<Attribute> columns) {
    Shipped<Seq<Expression>> bound = bound(seq(List.of(condition)), columns);
    return below.then(
        number -> {
          Expression mine = CollectionConverters.asJava(bound.unpacked()).get(0);
          BasePredicate holds = Predicate$.MODULE$.createInterpretedObject(mine);
          return new Kept(below.open.apply(number), holds::eval);
        });
  }

  private static final class Kept implements Iterator<InternalRow> {
    private final Iterator<InternalRow> rows;
    private final Predicate<InternalRow> holds;
    private InternalRow next;

    Kept(Iterator<InternalRow> rows, Predicate<InternalRow> holds) {
      this.rows = rows;
      this.holds = holds;
    }

    @Override
    public boolean hasNext() {
      while (next == null && rows.hasNext()) {
        InternalRow row = rows.next();
        if (holds.test(row)) next = row;
      }
      return next != null;
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) throw new NoSuchElementException();
      InternalRow row = next;
      next = null;
      return row;
    }
  }

  /** Several rows of each one. */
  private static Steps multiplied(
      Steps below, Supplier<Function<InternalRow, Iterator<InternalRow>>> making) {
    return below.then(
        number -> {
          Function<InternalRow, Iterator<InternalRow>> made = making.get();
          Iterator<InternalRow> rows = below.open.apply(number);
          return new Iterator<>() {
            private Iterator<InternalRow> given = Collections.emptyIterator();

            @Override
            public boolean hasNext() {
              while (!given.hasNext() && rows.hasNext()) given = made.apply(rows.next());
              return given.hasNext();
            }

            @Override
            public InternalRow next() {
              if (!hasNext()) throw new NoSuchElementException();
              return given.next();
            }
          };
        });
  }

  private static Supplier<Function<InternalRow, Iterator<InternalRow>>> expanded(
      Expand expand, Seq<Attribute> input) {
    List<Supplier<Function<InternalRow, InternalRow>>> projections = new ArrayList<>();
    for (Seq<Expression> one : CollectionConverters.asJava(expand.projections()))
      projections.add(projection(one, input));
    return () -> {
      List<Function<InternalRow, InternalRow>> mine =
          projections.stream().map(Supplier::get).toList();
      return row -> mine.stream().map(one -> one.apply(row).copy()).toList().iterator();
    };
  }

  private static Supplier<Function<InternalRow, Iterator<InternalRow>>> generated(
      Generate generate, Seq<Attribute> input) {
    Shipped<Seq<Expression>> bound = bound(seq(List.of((Expression) generate.generator())), input);
    List<Attribute> both = new ArrayList<>(CollectionConverters.asJava(input));
    both.addAll(CollectionConverters.asJava(generate.generatorOutput()));
    Supplier<Function<InternalRow, InternalRow>> joining = projection(generate.output(), seq(both));
    int width = CollectionConverters.asJava(generate.generatorOutput()).size();
    return () -> {
      Generator mine = (Generator) CollectionConverters.asJava(bound.unpacked()).get(0);
      Function<InternalRow, InternalRow> joined = joining.get();
      return row -> {
        List<InternalRow> made = new ArrayList<>();
        scala.collection.Iterator<InternalRow> given = mine.eval(row).iterator();
        while (given.hasNext()) made.add(joined.apply(new JoinedRow(row, given.next())).copy());
        if (made.isEmpty() && generate.outer())
          made.add(joined.apply(new JoinedRow(row, new GenericInternalRow(width))).copy());
        return made.iterator();
      };
    };
  }

  private static Steps called(
      Steps below,
      Function1<scala.collection.Iterator<Object>, scala.collection.Iterator<Object>> function) {
    return below.then(
        number -> {
          Iterator<InternalRow> rows = below.open.apply(number);
          Iterator<Object> objects =
              new Iterator<>() {
                @Override
                public boolean hasNext() {
                  return rows.hasNext();
                }

                @Override
                public Object next() {
                  return rows.next().get(0, new ObjectType(Object.class));
                }
              };
          return wrapped(
              CollectionConverters.asJava(
                  new Shipped<>(function).unpacked().apply(CollectionConverters.asScala(objects))));
        });
  }

  /** Objects as rows that hold one each. */
  private static Iterator<InternalRow> wrapped(Iterator<?> objects) {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        return objects.hasNext();
      }

      @Override
      public InternalRow next() {
        return new GenericInternalRow(new Object[] {objects.next()});
      }
    };
  }

  private static <T> Seq<T> seq(List<T> list) {
    return scala.collection.immutable.List.from(CollectionConverters.asScala(list));
  }

  // What is read

  private Steps source(StreamingRelationV2 relation) {
    String topic = relation.extraOptions().get("subscribe");
    Integer partitions = run.partitions.get(topic);
    if (partitions == null)
      throw new IllegalArgumentException("nobody has said how many partitions " + topic + " has");
    Source source = new Source(topic, partitions, UnsafeProjection.create(relation.schema()));
    sources.add(source);
    return new Steps(
        partitions, partition -> !source.waiting.get(partition).isEmpty(), source::read);
  }

  /** One reading of a topic. */
  private final class Source {
    private final String topic;
    private final List<ArrayDeque<InternalRow>> waiting = new ArrayList<>();
    private final UnsafeProjection form;

    Source(String topic, int partitions, UnsafeProjection form) {
      this.topic = topic;
      this.form = form;
      for (int i = 0; i < partitions; i++) waiting.add(new ArrayDeque<>());
    }

    void offer(KafkaRecord record) {
      if (record.topic().equals(topic))
        waiting.get(record.partition()).add(form.apply(record.row()).copy());
    }

    void empty() {
      waiting.forEach(ArrayDeque::clear);
    }

    Iterator<InternalRow> read(int partition) {
      ArrayDeque<InternalRow> mine = waiting.get(partition);
      return new Iterator<>() {
        @Override
        public boolean hasNext() {
          if (!mine.isEmpty()) return true;
          if (!run.ended) throw NOTHING_YET;
          return false;
        }

        @Override
        public InternalRow next() {
          return mine.remove();
        }
      };
    }
  }

  private Steps operator(TransformWithState plan) {
    Operator operator = new Operator(plan);
    operators.add(operator);
    run.operators.add(operator);
    return new Steps(run.shards, operator::isBusy, operator::work);
  }

  /** An operator with state: the rows of the stage below go to its shards by their key. */
  final class Operator {
    private final TransformWithState plan;
    private final Stage below;
    private final List<State> states = new ArrayList<>();
    private final List<ArrayDeque<InternalRow>> waiting = new ArrayList<>();
    private final Function<InternalRow, InternalRow> route;
    private final Supplier<Function<InternalRow, InternalRow>> key;
    private final Supplier<Function<InternalRow, InternalRow>> value;

    Operator(TransformWithState plan) {
      this.plan = plan;
      LogicalPlan child = plan.child();
      List<Expression> by = new ArrayList<>(CollectionConverters.asJava(plan.groupingAttributes()));
      List<Expression> shard =
          List.of(new HashPartitioning(seq(by), run.shards).partitionIdExpression());
      route = projection(seq(shard), child.output()).get();
      key = object(plan.keyDeserializer(), child.output());
      value = object(plan.valueDeserializer(), child.output());
      for (int i = 0; i < run.shards; i++) {
        states.add(new State(run));
        waiting.add(new ArrayDeque<>());
      }
      below = new Stage(child, run, row -> waiting.get(route.apply(row).getInt(0)).add(row.copy()));
    }

    void keep() {
      states.forEach(State::keep);
    }

    void putBack() {
      states.forEach(State::putBack);
    }

    void open() {
      waiting.forEach(ArrayDeque::clear);
      below.open();
    }

    boolean isBusy(int shard) {
      return !waiting.get(shard).isEmpty() || !states.get(shard).due(run.watermark).isEmpty();
    }

    Iterator<InternalRow> work(int shard) {
      return wrapped(new Shard(this, states.get(shard), waiting.get(shard)));
    }
  }

  /** A shard at work in a batch. */
  private final class Shard implements Iterator<Object> {
    private final State state;
    private final ArrayDeque<InternalRow> waiting;
    private final StatefulProcessor<Object, Object, Object> processor;
    private final Function<InternalRow, InternalRow> key;
    private final Function<InternalRow, InternalRow> value;
    private final ArrayDeque<Map.Entry<Row, List<Object>>> calls = new ArrayDeque<>();
    private Iterator<Object> given = Collections.emptyIterator();
    private ArrayDeque<State.Timer> due;

    Shard(Operator operator, State state, ArrayDeque<InternalRow> waiting) {
      TransformWithState plan = operator.plan;
      this.state = state;
      this.waiting = waiting;
      key = operator.key.get();
      value = operator.value.get();
      processor = new Shipped<>(plan.statefulProcessor()).unpacked();
      processor.setHandle(state);
      processor.init(plan.outputMode(), plan.timeMode());
    }

    @Override
    public boolean hasNext() {
      while (!given.hasNext()) {
        gather();
        Map.Entry<Row, List<Object>> call = calls.poll();
        if (call != null) {
          state.of(call.getKey());
          given =
              CollectionConverters.asJava(
                  processor.handleInputRows(
                      call.getKey(),
                      CollectionConverters.asScala(call.getValue().iterator()),
                      clock()));
          continue;
        }
        if (!run.ended) throw NOTHING_YET;
        // As Spark does: one that a timer asks for is not looked at in this batch.
        if (due == null) due = new ArrayDeque<>(state.due(run.watermark));
        State.Timer timer = due.poll();
        if (timer == null) return false;
        state.of(timer.key());
        if (!state.isSet(timer)) continue;
        given =
            CollectionConverters.asJava(
                processor.handleExpiredTimer(timer.key(), clock(), expired(timer.at())));
        state.deleteTimer(timer.at());
      }
      return true;
    }

    /** In live mode each row is a call; in exact mode all rows of a key are. */
    private void gather() {
      Map<Row, List<Object>> keys = new LinkedHashMap<>();
      while (!waiting.isEmpty()) {
        InternalRow row = waiting.remove();
        Row of = (Row) first(key.apply(row));
        Object one = first(value.apply(row));
        if (run.live) calls.add(Map.entry(of, List.of(one)));
        else keys.computeIfAbsent(of, k -> new ArrayList<>()).add(one);
      }
      calls.addAll(keys.entrySet());
    }

    private static Object first(InternalRow row) {
      return row.get(0, new ObjectType(Object.class));
    }

    @Override
    public Object next() {
      if (!hasNext()) throw new NoSuchElementException();
      return given.next();
    }
  }

  private TimerValues clock() {
    long watermark = run.watermark;
    return new TimerValues() {
      private static final long serialVersionUID = 1L;

      @Override
      public long getCurrentProcessingTimeInMs() {
        return System.currentTimeMillis();
      }

      @Override
      public long getCurrentWatermarkInMs() {
        return watermark;
      }
    };
  }

  private static ExpiredTimerInfo expired(long at) {
    return () -> at;
  }
}
