/**
 * From a row to a record of the log: JSON, the headers by which a restart knows what was written,
 * and what a row of a view puts or deletes.
 */
package headrace.kernel.encode;
