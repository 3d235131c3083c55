#include "core/files/sqlite.h"

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

#include "core/files/unreadable.h"

namespace moescope {
namespace {

constexpr int kInstructionsBetweenAsking = 20000;  // instructions of SQLite's virtual machine, about 1 ms

void harden(sqlite3* db) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  for (const auto& [limit, value] : {std::pair{SQLITE_LIMIT_LENGTH, kLongestValue},
                                     {SQLITE_LIMIT_SQL_LENGTH, 1 << 18},
                                     {SQLITE_LIMIT_EXPR_DEPTH, kMaxNesting},
                                     {SQLITE_LIMIT_COMPOUND_SELECT, 16},
                                     {SQLITE_LIMIT_VDBE_OP, 25000},
                                     {SQLITE_LIMIT_ATTACHED, 0},
                                     {SQLITE_LIMIT_TRIGGER_DEPTH, 1}})
    sqlite3_limit(db, limit, value);
}

}  // namespace

Connection::Connection(const std::string& path, int open_flags, const char* vfs, const std::string& shown)
    : path_(shown.empty() ? path : shown) {
  // Only one thread at a time uses a connection, so SQLite needs no locks.
  if (sqlite3_open_v2(path.c_str(), &db_, open_flags | SQLITE_OPEN_NOMUTEX, vfs) != SQLITE_OK) {
    const std::string message = db_ ? sqlite3_errmsg(db_) : "out of memory";
    sqlite3_close(db_);
    refuse(path_, message);
  }
  sqlite3_extended_result_codes(db_, 1);
  harden(db_);
  sqlite3_busy_timeout(db_, 5000);
}

void Connection::on_progress(std::function<bool()> go_on) {
  go_on_ = std::move(go_on);
  const auto ask = [](void* connection) { return static_cast<Connection*>(connection)->go_on_() ? 0 : 1; };
  sqlite3_progress_handler(db_, go_on_ ? kInstructionsBetweenAsking : 0, go_on_ ? +ask : nullptr, this);
}

void Connection::fail(std::string_view what) const {
  std::string message = path_ + ": ";
  if (!what.empty()) message.append(what).append(": ");
  throw std::runtime_error(message + sqlite3_errmsg(db_));
}

std::int64_t Connection::integer(const char* sql) {
  Statement statement(*this, sql);
  return statement.next() ? statement.get_integer() : 0;
}

Statement& Statement::bound(int code) {
  if (code != SQLITE_OK) connection_.fail("");
  return *this;
}

Statement& Statement::bind_blob(const void* data, std::size_t bytes) {
  return bound(bytes ? sqlite3_bind_blob64(statement_, ++parameter_, data, bytes, SQLITE_STATIC)
                     : sqlite3_bind_zeroblob(statement_, ++parameter_, 0));
}

void Statement::run() {
  while (next()) {
  }
}

void Statement::reset() {
  sqlite3_reset(statement_);
  parameter_ = 0;
}

bool Statement::next() {
  column_ = 0;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  parameter_ = 0;
  if (code != SQLITE_DONE) {
    // sqlite3_errmsg() returns the last message of the connection. It is read before anything else runs:
    // sqlite3_reset() would set it again, and finalizing another statement could change it.
    std::string message = connection_.path() + ": " + sqlite3_errmsg(connection_.handle());
    if (code == SQLITE_TOOBIG)
      message += fmt::format(": damaged: it is longer than {} bytes, which is more than anything in a recording",
                             sqlite3_limit(connection_.handle(), SQLITE_LIMIT_LENGTH, -1));
    sqlite3_reset(statement_);
    throw std::runtime_error(message);
  }
  sqlite3_reset(statement_);
  return false;
}

bool Statement::get_real(double& value) {
  const int column = column_++;
  value = sqlite3_column_double(statement_, column);  // 0 for NULL, so that the type is read only for 0
  return value != 0 || sqlite3_column_type(statement_, column) != SQLITE_NULL;
}

bool Statement::get_number(double& value) {
  const int column = column_++, type = sqlite3_column_type(statement_, column);
  value = sqlite3_column_double(statement_, column);
  return type == SQLITE_FLOAT || type == SQLITE_INTEGER;
}

bool Statement::get_whole(std::int64_t& value) {
  const int column = column_++;
  value = sqlite3_column_int64(statement_, column);
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}

std::string Statement::get_text(const char* what, std::size_t max_bytes) {
  const int column = column_++;
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  const std::size_t bytes = text ? sqlite3_column_bytes(statement_, column) : 0;
  if (bytes > max_bytes)
    throw std::runtime_error(
        fmt::format("{}{} has {} bytes, expected at most {}",
                    std::string_view(what).starts_with(connection_.path()) ? "" : connection_.path() + ": ", what,
                    bytes, max_bytes));
  return {text ? text : "", bytes};
}

std::span<const std::uint8_t> Statement::get_blob() {
  const int column = column_++;
  const auto* bytes = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_, column));
  return {bytes, bytes ? static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)) : 0};
}

}  // namespace moescope
