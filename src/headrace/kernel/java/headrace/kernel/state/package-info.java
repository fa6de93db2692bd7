/**
 * What an operator remembers: rows and keys as bytes, bags and tables of them in memory, and
 * `ShardStore`, which writes what has changed to Spark's state store once a batch and reads it
 * again after a restart.
 */
package headrace.kernel.state;
