/**
 * From a record of the log to a row: strict JSON, and the changes of a table. What does not fit
 * goes to the dead letters.
 */
package headrace.kernel.decode;
