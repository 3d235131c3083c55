// The part of SQLite that a recording needs: a connection and prepared statements, which throw on errors.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moescope {

inline constexpr std::size_t kLongestName = 4096;  // bytes of the name of a run, a file, a domain, ...
inline constexpr int kLongestValue = 1 << 28;      // bytes; the counts of 4096 ranks need half of it

// A connection to a file of unknown origin. Nothing in its schema is run (triggers, views, functions that only a
// trusted file may call), and the sizes of texts, blobs and statements are limited. Members that can fail throw
// std::runtime_error "PATH: <message of SQLite>".
class Connection {
 public:
  // `vfs`: the SQLite VFS to use in place of the default. If `path` is a URI, `shown` is the path in messages.
  Connection(const std::string& path, int open_flags, const char* vfs = nullptr, const std::string& shown = {});
  ~Connection() { sqlite3_close_v2(db_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void execute(const char* sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail("");
  }
  std::int64_t integer(const char* sql);  // first column of the first row
  // Sets the largest size of texts, blobs and rows from now on; larger ones are errors.
  void limit_length(int bytes) { sqlite3_limit(db_, SQLITE_LIMIT_LENGTH, bytes); }
  // `go_on` is called every few milliseconds while a statement runs; if it returns false, the statement ends with an
  // error. An empty function removes it.
  void on_progress(std::function<bool()> go_on);
  [[noreturn]] void fail(std::string_view what) const;
  int last_code() const { return sqlite3_extended_errcode(db_); }
  sqlite3* handle() const { return db_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sqlite3* db_ = nullptr;
  std::function<bool()> go_on_;
};

class Statement {
 public:
  Statement(Connection& connection, const std::string& sql) : connection_(connection) {
    bound(sqlite3_prepare_v3(connection.handle(), sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr));
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Bind the parameters from left to right. Blobs and texts must live until the statement has run.
  Statement& bind(std::integral auto value) { return bind_integer(static_cast<std::int64_t>(value)); }
  // Binds NULL for NaN.
  Statement& bind(double value) { return bound(sqlite3_bind_double(statement_, ++parameter_, value)); }
  Statement& bind(std::string_view text) {
    return bound(sqlite3_bind_text64(statement_, ++parameter_, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
  }
  template <class T>
  Statement& bind(const std::vector<T>& array) {  // as a blob
    return bind_blob(array.data(), array.size() * sizeof(T));
  }
  Statement& bind_blob(const void* data, std::size_t bytes);
  template <class... Values>
  Statement& bind_all(const Values&... values) {
    return (bind(values), ..., *this);
  }
  void run();    // runs a statement without result; then parameters can be bound again
  bool next();   // moves to the next row; false after the last one
  void reset();  // allows new parameters before the last row is reached

  // Read the columns of the current row from left to right.
  void skip() { ++column_; }
  std::int64_t get_integer() { return sqlite3_column_int64(statement_, column_++); }
  bool get_real(double& value);  // false for NULL
  // For files of other programs, whose columns may hold anything. Return false if the column is not a number, or not a
  // whole number.
  bool get_number(double& value);
  bool get_whole(std::int64_t& value);
  // Throws std::runtime_error "PATH: WHAT has N bytes, expected at most M"; `what` may begin with the path.
  std::string get_text(const char* what = "a name", std::size_t max_bytes = kLongestName);
  std::span<const std::uint8_t> get_blob();  // valid until the next row

 private:
  Statement& bound(int code);  // throws unless the code is SQLITE_OK
  Statement& bind_integer(std::int64_t value) { return bound(sqlite3_bind_int64(statement_, ++parameter_, value)); }
  Connection& connection_;
  sqlite3_stmt* statement_ = nullptr;
  int parameter_ = 0;
  int column_ = 0;
};

}  // namespace moescope
