/**
 * Event time: how a timestamp is written, how far a source has come, how far the tasks that send
 * rows have come, and how long one waits for rows that are out of order. Whether a row is late is
 * decided in `operators`, by the clocks of this room.
 */
package headrace.kernel.time;
