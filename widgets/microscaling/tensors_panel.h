// The tensors of a file, or captured ones, by module: name, shape and their quantization error in the current format.
// Of a file of many tensors, those in view are measured; of others all.
#pragma once

#include <QAction>
#include <QLabel>
#include <QLineEdit>
#include <QTableView>

#include "core/numerics/block_anatomy.h"
#include "core/tensors/open_tensors.h"
#include "widgets/microscaling/tensor_list_model.h"
#include "widgets/panel/latest_worker.h"
#include "widgets/panel/panel.h"

namespace moescope {

class TensorsPanel : public Panel {
  Q_OBJECT

 public:
  explicit TensorsPanel(Selection* selection, QWidget* parent = nullptr);

  // Maps the file and lists its tensors; false if it cannot be read, with the reason in place of the list.
  bool openFile(const QString& path, const TensorOptions& options = {});
  // Adds or replaces a tensor of that name and selects it.
  void addTensor(const TensorSource& source);
  void removeTensor(const QString& name);  // none of that name: nothing happens
  void setFormat(const OperandFormat& format, BlockAxis axis);
  bool selectNamed(const QString& name);  // false: there is none
  void select(int tensor);                // index in file order
  const TensorListModel& model() const { return model_; }
  bool showsFile() const { return !path_.isEmpty() && error_.isEmpty(); }
  QString error() const { return error_; }
  QLineEdit* filter() const { return filter_; }

  QString csv() const override;

 signals:
  void tensorChosen(const TensorSource& source);
  void openRequested();
  void typeWanted(QString path, std::size_t bits);  // of the opened file: it does not say what its values are
  void fileOpened(const QString& path);             // empty: it cannot be read
  void figuresChanged();

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;

 private:
  void fitColumns();
  void makeControls();
  void makeTable();
  void showError(const QString& error);
  void computeWanted();
  int nextToMeasure();  // -1: none
  void cancel();

  TensorListModel model_;
  OperandFormat format_ = mx_format(ElementFormat::e4m3);
  BlockAxis axis_ = BlockAxis::row;
  QString path_, error_;
  int generation_ = 0;
  std::vector<int> queue_;  // entries to compute
  bool computing_ = false, scheduled_ = false, measures_all_ = false;

  QLineEdit* filter_ = nullptr;
  QTableView* view_ = nullptr;
  QLabel* notice_ = nullptr;
  QAction* cancel_ = nullptr;
  LatestWorker worker_;
};

}  // namespace moescope
