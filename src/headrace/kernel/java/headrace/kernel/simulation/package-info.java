/**
 * A query without a stream, for tests: the plan that Spark would run is run here, on records that
 * are handed to it, with state in memory and a clock that the records move. A batch takes
 * milliseconds, and a crash is a method.
 */
package headrace.kernel.simulation;
