/**
 * One file an operator, and what they share. `Operators` has them all by name. `ShardInput` sends
 * rows as messages to the shard of their key, and a `ShardProcessor` there takes them in, decides
 * which are late and gives results. `Operator` is what Python has declared.
 */
package headrace.kernel.operators;
