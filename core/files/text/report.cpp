#include "core/files/text/report.h"

#include <fmt/core.h>

#include <cmath>
#include <type_traits>

#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

// Sets the value that a key of ValueColumn names. A number is the name of a member of what is an object already.
void set_member(Report::Json& parent, std::string_view key, Report::Json value) {
  const std::string name(key.substr(0, key.find('.')));
  const bool is_index = !parent.is_object() && name.find_first_not_of("0123456789") == std::string::npos;
  Report::Json& member = is_index ? parent[std::stoul(name)] : parent[name];
  if (name.size() == key.size())
    member = std::move(value);
  else
    set_member(member, key.substr(name.size() + 1), std::move(value));
}

}  // namespace

void Report::sentence(std::string_view line) {
  text_ += printable(line) + '\n';
}

void Report::lines(std::string_view text) {
  text_ += printable_lines(text);
  if (!text.empty() && !text.ends_with('\n')) text_ += '\n';
}

void Report::value(const ValueColumn& column, const TableValue& value) {
  if (!column.key.empty()) json(column.key, json_value(value));
  if (column.name.empty()) return;
  const std::string text = cell_text(column, value), unit = text == "-" ? "" : unit_text(column);
  sentence(fmt::format("{}: {}{}{}", column.name, text, unit.empty() ? "" : " ", unit));
}

void Report::table(const std::string& key, const ValueTable& table) {
  if (!key.empty()) rows(key, table);
  text_ += to_text(table);
  csv_ += to_csv(table);
}

void Report::rows(const std::string& key, const ValueTable& table, std::span<const Report> members) {
  Json rows = json_rows(table);
  for (std::size_t i = 0; i < members.size(); ++i) rows[i].update(members[i].json_);
  json(key, std::move(rows));
}

void Report::part(const std::string& key, const Report& part) {
  json(key, part.json_);
  append(part);
}

void Report::parts(const std::string& key, std::span<const Report> parts) {
  Json objects = Json::array();
  for (const Report& part : parts) {
    objects.push_back(part.json_);
    append(part);
  }
  json(key, std::move(objects));
}

void Report::json(std::string_view key, Json value) {
  set_member(json_, key, std::move(value));
}

void Report::append(const Report& part) {
  text_ += part.text_;
  csv_ += part.csv_;
}

Report::Json json_value(const TableValue& value) {
  return std::visit(
      [](const auto& known) -> Report::Json {
        using Type = std::decay_t<decltype(known)>;
        if constexpr (std::is_same_v<Type, std::monostate>)
          return nullptr;
        else if constexpr (std::is_floating_point_v<Type>)
          return std::isfinite(known) ? Report::Json(static_cast<double>(known)) : Report::Json(nullptr);
        else
          return known;
      },
      value);
}

TableValue named_number(float value) {
  if (is_missing(value)) return {};
  return std::isfinite(value) ? TableValue(static_cast<double>(value)) : TableValue(json_number(value));
}

Report::Json json_rows(const ValueTable& table) {
  Report::Json rows = Report::Json::array();
  for (std::size_t i = 0; i < table.rows(); ++i) {
    Report::Json& row = rows.emplace_back(Report::Json::object());
    for (std::size_t c = 0; c < table.columns().size(); ++c)
      if (const std::string& key = table.columns()[c].key; !key.empty())
        set_member(row, key, json_value(table.row(i)[c]));
  }
  return rows;
}

}  // namespace moescope
