"""tf.data with its own decoders and AUTOTUNE."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pathlib  # noqa: E402: the two lines above must come first
import time  # noqa: E402

import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402

SETTINGS = {"jpeg": [{}], "npz": [{"calls": 2}, {"calls": 4}],
            "delayed": [{"calls": n} for n in (16, 64, 256)], "tokens": [{}]}


def version():
    return tf.__version__


def files(folder, pattern):
    paths = [str(path) for path in sorted(pathlib.Path(folder).glob(pattern))]
    return tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths))


def finish(dataset, batch):
    made = dataset.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    return lambda: made.as_numpy_iterator()


def jpeg(folder, batch):
    mean = tf.constant([0.485, 0.456, 0.406])
    std = tf.constant([0.229, 0.224, 0.225])

    def read(path):
        packed = tf.io.read_file(path)
        shape = tf.image.extract_jpeg_shape(packed)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros([1, 0, 4]), area_range=(0.08, 1), aspect_ratio_range=(3 / 4, 4 / 3),
            use_image_if_no_bounding_boxes=True)
        y, x, _ = tf.unstack(begin)
        height, width, _ = tf.unstack(size)
        window = tf.stack([y, x, height, width])
        pixels = tf.image.decode_and_crop_jpeg(packed, window, channels=3)
        pixels = tf.image.resize(pixels, (224, 224), antialias=True)
        pixels = tf.image.random_flip_left_right(pixels) / 255
        return tf.transpose((pixels - mean) / std, (2, 0, 1))
    return finish(files(folder, "images/*/*.jpg").map(read, tf.data.AUTOTUNE), batch)


def npz(folder, batch, calls):
    def load(path):
        with numpy.load(path.decode()) as arrays:
            return arrays["x"]

    def read(path):
        values = tf.numpy_function(load, [path], tf.float32)
        return tf.ensure_shape(values, (3, 224, 224))
    return finish(files(folder, "arrays/*.npz").map(read, calls), batch)


def delayed(folder, batch, calls):
    def load(path):
        time.sleep(0.05)
        return numpy.fromfile(path.decode(), numpy.uint8)

    def read(path):
        return tf.ensure_shape(tf.numpy_function(load, [path], tf.uint8), (10_240,))
    return finish(files(folder, "small/*.bin").map(read, calls), batch)


def tokens(folder, batch):
    values = numpy.load(pathlib.Path(folder, "tokens.npy"), mmap_mode="r").reshape(-1, 2048)
    count = len(values)

    def read(number):
        row = tf.numpy_function(lambda i: values[i].astype(numpy.int64), [number], tf.int64)
        return tf.ensure_shape(row, (2048,))
    return finish(tf.data.Dataset.range(count).shuffle(count).map(read, 2), batch)


CASES = {"jpeg": jpeg, "npz": npz, "delayed": delayed, "tokens": tokens}
