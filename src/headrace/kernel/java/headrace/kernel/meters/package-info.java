/**
 * What is counted while a batch still runs: rows, late rows, dead letters, sizes, hot keys, how
 * long a record took. The counts of all executors come to the driver a few times a second.
 */
package headrace.kernel.meters;
