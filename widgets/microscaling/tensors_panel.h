// The tensors of a file, or captured ones: name, type, shape and, for the visible ones, their quantization
// error in the current format.
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <QToolButton>

#include "core/numerics/block_anatomy.h"
#include "widgets/microscaling/tensor_list_model.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"

namespace moescope {

class TensorsPanel : public Panel {
  Q_OBJECT

 public:
  explicit TensorsPanel(Selection* selection, QWidget* parent = nullptr);

  // Maps the file and lists its tensors; false if it cannot be read, with the reason in place of the list.
  bool openFile(const QString& path);
  // Adds or replaces a tensor of that name and selects it.
  void addTensor(const TensorSource& source);
  void removeTensor(const QString& name);  // none of that name: nothing happens
  void setFormat(const OperandFormat& format, BlockAxis axis);
  bool selectNamed(const QString& name);  // false: there is none
  QString error() const { return error_; }

  QString csv() const override;
  QString explain() const override;

 signals:
  void tensorChosen(const TensorSource& source);
  void openRequested();

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;

 private:
  void fitColumns();
  void select(int tensor);  // index in file order
  void makeControls();
  void showError(const QString& error);
  void computeWanted();
  void cancel();

  TensorListModel model_;
  QSortFilterProxyModel proxy_;
  OperandFormat format_ = mx_format(ElementFormat::e4m3);
  BlockAxis axis_ = BlockAxis::row;
  QString path_, error_;
  int generation_ = 0;
  std::vector<int> queue_;  // rows to compute
  bool computing_ = false, scheduled_ = false;

  QLineEdit* filter_ = nullptr;
  QTableView* view_ = nullptr;
  QLabel *notice_ = nullptr, *progress_ = nullptr;
  QToolButton* cancel_ = nullptr;
  LatestWorker worker_;
};

}  // namespace moescope
