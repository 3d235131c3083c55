// The verdict over all candidates in one line, and at the right what would settle those that are open, with a button
// that does it. Where there is little room the explanation goes first, then the names of the runs.
#pragma once

#include <QPushButton>
#include <QToolButton>
#include <QWidget>

#include "widgets/compare/judged_runs.h"
#include "widgets/look/fitted_text.h"

namespace moescope {

class VerdictStrip : public QWidget {
  Q_OBJECT

 public:
  VerdictStrip(Selection* selection, JudgedRuns* judged, QWidget* parent = nullptr);

  QString text() const;  // "Good enough: B mxfp8_rceil. Worse: D mxfp4"
  QString settlementText() const { return settle_->text(); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 signals:
  void twinRequested();                  // a noise twin
  void stepsRequested(qint64 step);      // training up to it
  void explanationRequested(QPoint at);  // global position

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Item {
    VerdictWord word;
    bool says_word;  // the item before has another one
    QString letter, name;
    int color;
    bool operator==(const Item&) const = default;
  };
  void fill();
  void fillSettlement();
  QStringList undetectedForms() const;
  QStringList settlementForms(const Settlement& found) const;
  QString runsOf(const Settlement& found) const;
  int itemsWidth(bool names) const;
  void place();

  Selection* selection_;
  JudgedRuns* judged_;
  std::vector<Item> items_;
  QStringList instead_;    // of the verdicts: why there is none, long to short
  std::int64_t step_ = 0;  // that the button trains to; 0: it adds a twin
  bool names_ = true;
  FittedLabel* settle_;
  QPushButton* button_;
  QToolButton* explain_;
};

}  // namespace moescope
