// Reads the numbers of a panel's answer back and compares them with figures, for tests of what panels say.
#pragma once

#include <QRegularExpression>
#include <QString>
#include <QStringList>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/support/shown_panel.h"
#include "widgets/panel/panel.h"

namespace moescope {

// A number in a sentence; `slack` is half a unit of its last digit.
struct Told {
  double value = 0, slack = 0;
  bool is(double exact) const { return std::abs(value - exact) <= slack * 1.0001 + 1e-5 * std::abs(exact); }
};

inline std::vector<Told> numbersIn(const QString& sentence) {
  static const QRegularExpression kNumber(QStringLiteral(
      "([\u2212+]?)(\\d[\\d,]*)(?:\\.(\\d+))?(?: \u00d7 10([\u207b\u2070\u00b9\u00b2\u00b3\u2074-\u2079]+))?"));
  static const QString kRaised = QStringLiteral("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079");
  std::vector<Told> numbers;
  for (auto found = kNumber.globalMatch(sentence); found.hasNext();) {
    const auto match = found.next();
    const QString whole = QString(match.captured(2)).remove(',');
    int exponent = 0;
    for (const QChar digit : match.captured(4))
      if (const auto value = kRaised.indexOf(digit); value >= 0) exponent = 10 * exponent + static_cast<int>(value);
    if (match.captured(4).startsWith(QChar(0x207b))) exponent = -exponent;
    const double size = QString("%1.%2").arg(whole, match.captured(3) + '0').toDouble() * std::pow(10.0, exponent);
    const double sign = match.captured(1) == QString(QChar(0x2212)) ? -1 : 1;
    numbers.push_back({sign * size, 0.5 * std::pow(10.0, exponent - match.captured(3).size())});
  }
  return numbers;
}

inline QRegularExpressionMatch match(const char* pattern, const QString& sentence) {
  return QRegularExpression(QString::fromUtf8(pattern)).match(sentence);
}

// True if the text is this number; "303k" is 303,000.
inline bool says(const QString& text, double exact) {
  return !text.isEmpty() && numbersIn(text).front().is(text.endsWith(QLatin1Char('k')) ? exact / 1000 : exact);
}

// The rows of a table in CSV without its header.
class Rows {
 public:
  explicit Rows(const QString& csv) {
    for (const QString& line : lines(csv).mid(1)) rows_ << cellsOf(line);
  }
  qsizetype size() const { return rows_.size(); }
  double at(qsizetype row, int column) const { return rows_[row].value(column).toDouble(); }
  QString text(qsizetype row, int column) const { return rows_[row].value(column); }
  Rows rows_where(int column, double value) const {
    return rows_where([&](qsizetype row) { return at(row, column) == value; });
  }
  Rows rows_where(int column, const QString& value) const {
    return rows_where([&](qsizetype row) { return text(row, column) == value; });
  }
  std::vector<double> column(int column) const {
    std::vector<double> values;
    for (const QStringList& row : rows_) values.push_back(row.value(column).toDouble());
    return values;
  }
  double sum(int column_index) const {
    const std::vector<double> values = column(column_index);
    return std::accumulate(values.begin(), values.end(), 0.0);
  }
  double largest(int column_index) const { return std::ranges::max(column(column_index)); }

 private:
  Rows() = default;
  static QStringList cellsOf(const QString& line) {
    QStringList cells{{}};
    bool is_quoted = false;
    for (const QChar c : line) {
      if (c == QLatin1Char('"'))
        is_quoted = !is_quoted;
      else if (c == QLatin1Char(',') && !is_quoted)
        cells << QString();
      else
        cells.back() += c;
    }
    return cells;
  }
  Rows rows_where(const std::function<bool(qsizetype)>& holds) const {
    Rows chosen;
    for (qsizetype row = 0; row < size(); ++row)
      if (holds(row)) chosen.rows_ << rows_[row];
    return chosen;
  }
  QList<QStringList> rows_;
};

// True if the line with the answer was painted with the present answer, which is its tool tip.
inline bool isPainted(const Panel& panel) {
  const QString answer = panel.answerText();
  return answer.isEmpty() || std::ranges::any_of(panel.findChildren<QWidget*>(),
                                                 [&](const QWidget* widget) { return widget->toolTip() == answer; });
}

// A panel whose answers a test can read.
template <class P>
class Answering : public P {
 public:
  using P::P;
  QStringList answers() {
    this->resize(520, 300);
    this->grab();  // fills the plots, to which the answers belong
    return this->answer().answers;
  }
};

// Returns the numbers that the longest form of an answer has to name, from the panel's table and the numbers told.
using Exact = std::function<std::vector<double>(const Rows&, const std::vector<Told>&)>;

// Says which number of a sentence is wrong; empty if none is.
inline QString compare(const QString& sentence, const std::vector<double>& exact) {
  const std::vector<Told> numbers = numbersIn(sentence);
  if (numbers.size() != exact.size())
    return QString("%1: %2 numbers in place of %3").arg(sentence).arg(numbers.size()).arg(exact.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (!numbers[i].is(exact[i]))
      return QString("%1: %2 in place of %3").arg(sentence).arg(numbers[i].value).arg(exact[i]);
  return {};
}

// Says which number of a shorter form is not in the longest form.
inline QString compareForms(const QStringList& forms) {
  const std::vector<Told> all = numbersIn(forms.value(0));
  for (const QString& form : forms)
    for (const Told& number : numbersIn(form))
      if (std::ranges::none_of(all, [&](const Told& exact_number) {
            return std::abs(exact_number.value - number.value) <= exact_number.slack + number.slack;
          }))
        return QString("%1: %2 is not in %3").arg(form).arg(number.value).arg(forms.front());
  return {};
}

}  // namespace moescope
