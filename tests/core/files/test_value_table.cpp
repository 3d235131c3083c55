// Tables of results as CSV.
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <tuple>

#include "core/files/text/value_table.h"
#include "core/logs/table/csv_rows.h"

namespace moescope {
namespace {

TEST(ValueTables, CsvHasUnitsAndEveryDigit) {
  ValueTable table({{"layer"}, {"load", "fair shares"}, {"bytes"}, {"SQNR", "dB"}});
  table.add(3, 0.1f, std::int64_t{1} << 60, 0.1);
  table.add(4, kNoValue, 0u, std::numeric_limits<double>::infinity());
  table.add(5, std::numeric_limits<float>::quiet_NaN(), 0u, std::optional<double>());
  EXPECT_EQ(to_csv(table),
            "layer,load [fair shares],bytes,SQNR [dB]\n"
            "3,0.1,1152921504606846976,0.1\n"
            "4,,0,inf\n"
            "5,NaN,0,\n");
}

TEST(ValueTables, CsvReadsBackAsTheSameTexts) {
  const std::vector<std::string> texts = {"plain", "a, b", "say \"x\"", "two\nlines", ""};
  ValueTable table({{"name, with comma"}, {"number"}});
  for (const std::string& text : texts) table.add(text, 1);
  CsvRows rows(',');
  std::vector<std::string> read;
  const auto take = [&](const CsvRow& row) { read.emplace_back(row.cells[0]); };
  rows.add(to_csv(table), take);
  rows.finish(take);
  ASSERT_EQ(read.size(), texts.size() + 1);
  EXPECT_EQ(read[0], "name, with comma");
  EXPECT_TRUE(std::equal(texts.begin(), texts.end(), read.begin() + 1));
}

TEST(ValueTables, HeadersGiveNamesUnitsAndDigits) {
  const ValueTable table({"layer", "slots [share]", "SQNR [dB]:3", "largest / mean:2"});
  const auto parts = [](const ValueColumn& column) { return std::tuple(column.name, column.unit, column.digits); };
  EXPECT_EQ(parts(table.columns()[0]), std::tuple("layer", "", 4));
  EXPECT_EQ(parts(table.columns()[1]), std::tuple("slots", "share", 4));
  EXPECT_EQ(parts(table.columns()[2]), std::tuple("SQNR", "dB", 3));
  EXPECT_EQ(parts(table.columns()[3]), std::tuple("largest / mean", "", 2));
}

TEST(ValueTables, RowsAreFoundByTheirFirstValues) {
  ValueTable table({{"layer"}, {"expert"}, {"tokens"}});
  for (int layer = 0; layer < 3; ++layer)
    for (int expert = 0; expert < 2; ++expert) table.add(layer, expert, 10 * layer + expert);
  EXPECT_EQ(table.find(std::array{table_value(2), table_value(1)}), 5u);
  EXPECT_EQ(table.find(std::array{table_value(1)}), 2u);
  EXPECT_EQ(table.find(std::array{table_value(3)}), std::nullopt);
}

}  // namespace
}  // namespace moescope
