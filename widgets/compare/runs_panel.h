// The runs as a table: figures of their last common steps, and the settings in which they differ.
#pragma once

#include <QTableWidget>

#include "widgets/panel/panel.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

class RunsPanel : public Panel {
  Q_OBJECT

 public:
  RunsPanel(Selection* selection, const ComparedRuns* runs, QWidget* parent = nullptr);
  QString csv() const override;
  QString explain() const override;

  static constexpr int kWindow = 50;  // steps of each mean

 protected:
  QString status() const override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  struct Line {
    QString name;
    std::vector<QString> cells;  // by run
    QString tip;
    std::vector<QString> cell_tips;  // by run; empty: the cells themselves
  };
  std::vector<Line> lines(bool for_screen) const;
  void fill();
  void fitHeights();
  void copy();

  const ComparedRuns* runs_;
  QTableWidget* table_;
};

}  // namespace moescope
