// The tensors of a file, or captured tensors, by module: name, shape and quantization error in the current format. In a
// file with many tensors only visible tensors are measured, else all.
#pragma once

#include <QAction>
#include <QLabel>
#include <QLineEdit>
#include <QTableView>
#include <functional>

#include "core/files/tensors/open_tensors.h"
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
  bool openFile(const QString& path, std::optional<DType> bytesAre = {});
  // Adds a tensor, or replaces the tensor of the same name, and selects it.
  void addTensor(const TensorSource& source);
  void removeTensors(const std::function<bool(const TensorSource&)>& is_removed);
  void setFormat(const OperandFormat& format, BlockAxis axis);
  bool selectNamed(const QString& name);  // selects the tensor of this name; false: there is none
  void select(int tensor);                // selects a tensor by its index among the entries
  const TensorListModel& model() const { return model_; }
  bool showsFile() const { return !path_.isEmpty() && error_.isEmpty(); }
  QString error() const { return error_; }
  QLineEdit* filter() const { return filter_; }

  ValueTable table() const override;

 signals:
  void tensorChosen(const TensorSource& source);
  void openRequested();
  // Asks for the type of the file's values, which the file does not state.
  void typeWanted(QString path, std::size_t bits);
  void fileOpened(const QString& path);  // path of the opened file; empty if it cannot be read
  void figuresChanged();

 protected:
  std::optional<Provenance> kind() const override;
  QString status() const override;

 private:
  void fitColumns();
  void makeControls();
  void makeTable();
  void showError(const QString& error);
  void showEntries(std::vector<TensorEntry> entries);  // without figures
  void computeWanted();
  int entryNamed(const QString& name) const;  // -1: there is none
  int nextToMeasure();                        // next tensor to measure; -1: none
  void cancel();

  TensorListModel model_;
  OperandFormat format_ = mx_format(ElementFormat::e4m3);
  BlockAxis axis_ = BlockAxis::row;
  QString path_, error_;
  int generation_ = 0;
  std::vector<int> queue_;  // entries whose figures are to be computed
  bool computing_ = false, scheduled_ = false, measures_all_ = false;

  QLineEdit* filter_ = nullptr;
  QTableView* view_ = nullptr;
  QLabel* notice_ = nullptr;
  QAction* cancel_ = nullptr;
  LatestWorker worker_;
};

}  // namespace moescope
