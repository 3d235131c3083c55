// A table with a row for each run: verdict and reason, the gap to run A as an interval against the band that is too
// small to matter, and figures. A narrow table hides notes and reasons first, then whole columns from the right; no
// number is cut. A click or the Up and Down keys select a run. The circle before a run, Return, or its menu make it the
// baseline, with which the others are compared.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/findings/comparison/verdict_words.h"
#include "widgets/look/sign.h"
#include "widgets/plots/plot_frame.h"

namespace moescope {

struct VerdictFigure {
  QString text, below;  // text of the first line, and of the second
  bool bad = false;     // the value is beyond its limit
  QString tip;          // tool tip, which names the operand
  bool missing() const { return text.isEmpty() || text == QStringLiteral("\u2013"); }
};

struct VerdictRow {
  enum Column { kGap, kSqnr, kFlushed, kFlips, kGradient, kSpeed, kColumns };
  QString letter, name;
  int color = 0;                    // index of seriesColor
  bool noise = false;               // the run is a noise twin
  bool baseline = false;            // the others are compared with the run
  QString note, note_tip;           // setting that differs from run A, in words and by its key
  std::optional<VerdictWord> word;  // verdict; none for run A and noise twins
  Sign sign = Sign::unsure;         // of the verdict
  QString verdict;                  // the same as a text: "So far: worse"
  QStringList reasons;              // long to short
  float gap = kNoValue, half_width = kNoValue;
  std::array<VerdictFigure, kColumns> figures;
  QStringList spoken() const;  // the whole row for screen readers, a line for each part
};

Sign signOf(const Conclusion& conclusion);  // unsure while the verdict may change or has not held for long
void paintChip(QPainter& painter, const QRect& place, const QString& letter, const QColor& color);

class VerdictTable : public PlotFrame {
  Q_OBJECT

 public:
  explicit VerdictTable(QWidget* parent = nullptr);

  // Called in refill(). `matters`: half the width of the band in nats/token. `share`: the same as a share of run A's
  // loss, in words.
  void setRows(std::vector<VerdictRow> rows, float matters, const QString& share);
  void setActive(int row) { active_ = row; }
  const std::vector<VerdictRow>& rows() const { return rows_; }
  static QStringList columnNames();  // names of the columns with units, as in the header
  // Returns the shown texts: the header, then row by row.
  std::vector<QStringList> shownTexts() const;
  int heightFor(int rows) const;
  QSize sizeHint() const override { return {600, heightFor(to_int(rows_.size()))}; }
  std::optional<FigureTarget> figureAt(QPoint position) const override;

 signals:
  void rowChosen(int row);
  void baselineChosen(int row);

 protected:
  QMargins margins() const override { return {}; }
  void paintData(QPainter& painter) override;
  QStringList readoutAt(QPoint position) const override;
  QPoint cursorPosition() const override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;

 private:
  struct Layout {
    bool notes = true, two_lines = true;
    int reasons = 0;                                // width of the reasons
    std::vector<int> columns;                       // shown columns, from the left
    int chip = 0, name = 0, mark = 0, word = 0;     // left edges; circles are left of `chip` if it is above kEdge
    int plot = 0, plot_width = 0;                   // 0: no plot
    std::array<int, VerdictRow::kColumns> right{};  // right edges
    int header = 0, row = 0;                        // heights
  };
  Layout layOut() const;
  int nameWidth(bool notes) const;
  int verdictWidth(qsizetype form) const;  // `form` of the reasons, from 0 for the longest
  int columnWidth(int column) const;
  bool hasColumn(int column) const;
  int rowAt(int y) const;  // -1: none
  QString baselineLetter() const;
  bool choosesBaseline() const;  // true if there is a choice of baselines
  void chooseBaseline(int row);
  void paintCircle(QPainter& painter, const Layout& at, int row) const;
  Axis gapAxis(const Layout& at) const;
  QStringList bandForms() const;
  void paintHeader(QPainter& painter, const Layout& at) const;
  void paintBand(QPainter& painter, const Layout& at) const;
  void paintRow(QPainter& painter, const Layout& at, int row) const;
  void paintInterval(QPainter& painter, const Layout& at, int row) const;
  void paintVerdict(QPainter& painter, const Layout& at, const QRect& line, const VerdictRow& row) const;
  // Paints two texts in a row, one above the other, or the first alone in the middle.
  void paintLines(QPainter& painter, const QRect& place, const QString& above, const QString& below, int align) const;
  void chooseRange();

  std::vector<VerdictRow> rows_;
  int active_ = 0;
  float matters_ = kNoValue;
  QString share_;
  ValueRange values_;
};

}  // namespace moescope
