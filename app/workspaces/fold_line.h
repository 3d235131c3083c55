// A dashed line in place of panels for which a log or run has no data, with a link that shows them.
#pragma once

#include <QFrame>

namespace moescope {

class FittedLabel;

class FoldLine : public QFrame {
  Q_OBJECT

 public:
  explicit FoldLine(QWidget* parent = nullptr);

  // `source`: "log" or "run"; `lacking`: data that it does not have; `panels`: titles of the hidden panels.
  void tell(const QString& source, const QStringList& lacking, const QStringList& panels);

 signals:
  void showRequested();

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  FittedLabel* words_;
};

}  // namespace moescope
