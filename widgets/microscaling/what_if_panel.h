// The open tensor in every element format, scale rule and block size, computed in a worker thread; a click applies a
// choice.
#pragma once

#include <QAction>
#include <QComboBox>

#include "core/numerics/block_anatomy.h"
#include "widgets/microscaling/tensor_source.h"
#include "widgets/microscaling/what_if_table.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"

namespace moescope {

class WhatIfPanel : public Panel {
  Q_OBJECT

 public:
  explicit WhatIfPanel(Selection* selection, QWidget* parent = nullptr);

  void setSource(const TensorSource& source, std::size_t slice = 0);
  void setChoice(const OperandFormat& format, BlockAxis axis);
  const WhatIfTable* table() const { return table_; }
  void cancel();

  QString csv() const override;

 signals:
  void chosen(const OperandFormat& format, BlockAxis axis);

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;
  Answer answer() const override;

 private:
  void deliver(int request, std::vector<WhatIfRow> rows, std::vector<WhatIfRow> schemes, const QString& note);

  WhatIfTable* table_;
  QComboBox *metric_, *columns_;
  QAction* cancel_;
  QString note_;     // note on the values that were used
  int request_ = 0;  // number of the newest request; results of older ones are dropped
  LatestWorker worker_;
};

}  // namespace moescope
