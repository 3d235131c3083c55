// A dashed line in place of the panels that a log has nothing for, with a link that shows them.
#pragma once

#include <QFrame>

namespace moescope {

class FittedLabel;

class FoldLine : public QFrame {
  Q_OBJECT

 public:
  explicit FoldLine(QWidget* parent = nullptr);

  // `lacking`: what the log does not have; `panels`: the titles of those that are hidden.
  void tell(const QStringList& lacking, const QStringList& panels);

 signals:
  void showRequested();

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  FittedLabel* words_;
};

}  // namespace moescope
