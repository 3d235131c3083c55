// One sentence over the panels of a workspace, with what it is about at its right, and the gap below it. Hidden while
// there is none.
#pragma once

#include <QWidget>

#include "widgets/look/fitted_text.h"

namespace moescope {

class VerdictLine : public QWidget {
  Q_OBJECT

 public:
  explicit VerdictLine(QWidget* parent = nullptr);
  void setVerdict(const QStringList& sentence, const QStringList& about);  // each from long to short
  QString text() const { return sentence_->text(); }
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  FittedLabel *sentence_, *about_;
};

}  // namespace moescope
