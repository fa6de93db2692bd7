package headrace.kernel.operators;

import java.util.function.BiFunction;

/**
 * An operator as the kernel knows it: a constant of the class that works in its shards, listed in
 * {@link Operators}.
 *
 * @param name what a spec calls it
 * @param form the number of the form in which it writes its state; who changes that form counts on,
 *     here and in Python, and old state is refused instead of read wrongly
 * @param options the record of its options
 * @param processor what works in a shard
 */
record OperatorKind<O extends Record & OperatorOptions>(
    String name, int form, Class<O> options, BiFunction<Operator, O, ShardProcessor<?>> processor) {
  ShardProcessor<?> processor(Operator operator) {
    return processor.apply(operator, options.cast(operator.options));
  }
}
