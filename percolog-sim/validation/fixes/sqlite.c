// SQLite counts the memory that it uses, under a lock for all connections, unless it is told not to.
#include "threads.h"
#include <sqlite3.h>

static sqlite3 *connections[MOST];
static sqlite3_stmt *statements[MOST];

static void begin(void) {
    if (mended) {
        sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    }
    sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    sqlite3_initialize();
}

static void prepare(int thread) {
    sqlite3 **connection = &connections[thread];
    int how = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    sqlite3_open_v2(":memory:", connection, how, 0);
    sqlite3_exec(*connection, "create table t(a integer primary key, b text)", 0, 0, 0);
    sqlite3_prepare_v2(*connection, "insert or replace into t values(?, ?)", -1, &statements[thread], 0);
}

static void once(int thread, int round) {
    sqlite3_stmt *statement = statements[thread];
    sqlite3_bind_int(statement, 1, round & 31);
    sqlite3_bind_text(statement, 2, "a text that is long enough to be allocated", -1, SQLITE_TRANSIENT);
    sqlite3_step(statement);
    sqlite3_reset(statement);
}
