#include "core/telemetry/sqlite.h"

#include <stdexcept>

namespace moescope {

Connection::Connection(const std::string& path, int open_flags) : path_(path) {
  // One thread at a time uses a connection, so SQLite need not lock for us.
  if (sqlite3_open_v2(path.c_str(), &db_, open_flags | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    const std::string message = db_ ? sqlite3_errmsg(db_) : "out of memory";
    sqlite3_close(db_);
    throw std::runtime_error(path_ + ": " + message);
  }
  sqlite3_extended_result_codes(db_, 1);
  sqlite3_busy_timeout(db_, 5000);
}

Connection::~Connection() {
  sqlite3_close_v2(db_);
}

void Connection::fail(std::string_view what) const {
  std::string message = path_ + ": ";
  if (!what.empty()) message.append(what).append(": ");
  throw std::runtime_error(message + sqlite3_errmsg(db_));
}

void Connection::execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("");
}

std::int64_t Connection::integer(const char* sql) {
  Statement statement(*this, sql);
  return statement.next() ? statement.get_integer() : 0;
}

Statement::Statement(Connection& connection, const std::string& sql) : connection_(connection) {
  if (sqlite3_prepare_v3(connection.handle(), sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr) !=
      SQLITE_OK) {
    connection.fail("");
  }
}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

Statement& Statement::bind(std::int64_t value) {
  if (sqlite3_bind_int64(statement_, ++parameter_, value) != SQLITE_OK) connection_.fail("");
  return *this;
}

Statement& Statement::bind(double value) {
  if (sqlite3_bind_double(statement_, ++parameter_, value) != SQLITE_OK) connection_.fail("");
  return *this;
}

Statement& Statement::bind(std::string_view text) {
  if (sqlite3_bind_text64(statement_, ++parameter_, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8) !=
      SQLITE_OK) {
    connection_.fail("");
  }
  return *this;
}

Statement& Statement::bind_blob(const void* data, std::size_t bytes) {
  const int code = bytes ? sqlite3_bind_blob64(statement_, ++parameter_, data, bytes, SQLITE_STATIC)
                         : sqlite3_bind_zeroblob(statement_, ++parameter_, 0);
  if (code != SQLITE_OK) connection_.fail("");
  return *this;
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
    // The message is the connection's last, which a reset would repeat but a finalize of another could change.
    const std::string message = connection_.path() + ": " + sqlite3_errmsg(connection_.handle());
    sqlite3_reset(statement_);
    throw std::runtime_error(message);
  }
  sqlite3_reset(statement_);
  return false;
}

std::int64_t Statement::get_integer() {
  return sqlite3_column_int64(statement_, column_++);
}

bool Statement::get_real(double& value) {
  const int column = column_++;
  if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return false;
  value = sqlite3_column_double(statement_, column);
  return true;
}

std::string Statement::get_text() {
  const int column = column_++;
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return text ? std::string(text, sqlite3_column_bytes(statement_, column)) : std::string();
}

std::span<const std::uint8_t> Statement::get_blob() {
  const int column = column_++;
  const auto* bytes = static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_, column));
  return {bytes, bytes ? static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)) : 0};
}

}  // namespace moescope
