/**
 * Into the log: `Transaction` writes the rows of a task together with the number of its batch, so
 * that a batch that is run again is written once. `SideOutput` writes dead letters and late rows in
 * the same way.
 */
package headrace.kernel.sinks;
