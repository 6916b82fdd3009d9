"""Compiles jvm/ into the jar that the package brings to Spark: ``connector.py JAR``.

The compiler is Janino, which Spark ships and which runs in any JRE, so that nobody needs a JDK. The same sources make
the same bytes: files are in order, have one date and are not compressed. The jar is named by a digest of its sources,
by which a node knows it again (docs/design/0015-journals-without-python.md).
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

SOURCES: Final = Path(__file__).parents[1] / "jvm"
LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
JAVA_VERSION: Final = 17
"""Of the class files: what Spark itself needs."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("jar", type=Path)
    parser.add_argument("--java-option", action="append", default=[], help="for the JVM that compiles")
    arguments = parser.parse_args()
    sources = sorted(SOURCES.rglob("*.java"))
    classes = compiled(sources, arguments.java_option)
    write_jar(arguments.jar, digest(sources), classes)
    return 0


def compiled(sources: list[Path], java_options: list[str]) -> dict[str, bytes]:
    """The class files of the sources, by their names in a jar."""
    jars = Path(pyspark.__path__[0], "jars", "*")
    port, secret = launch_gateway(
        classpath=str(jars), javaopts=java_options, die_on_exit=True, enable_auth=True, redirect_stderr=sys.stderr
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
    try:
        return _compiled(gateway.jvm, sources, gateway)
    finally:
        gateway.shutdown()


def _compiled(jvm: Any, sources: list[Path], gateway: JavaGateway) -> dict[str, bytes]:
    resources = jvm.org.codehaus.commons.compiler.util.resource
    files = gateway.new_array(resources.Resource, len(sources))
    for index, source in enumerate(sources):
        name = source.relative_to(SOURCES).as_posix()
        files[index] = resources.StringResource(name, source.read_text(encoding="utf-8"))
    made = resources.MapResourceCreator()
    compiler = jvm.org.codehaus.janino.Compiler()
    compiler.setIClassLoader(_known_classes(jvm, resources, gateway))
    compiler.setSourceVersion(JAVA_VERSION)
    compiler.setTargetVersion(JAVA_VERSION)
    compiler.setDebugSource(True)
    compiler.setDebugLines(True)
    compiler.setDebugVars(False)
    compiler.setClassFileCreator(made)
    try:
        compiler.compile(files)
    except Py4JJavaError as error:
        sys.exit(f"Janino: {error.java_exception.toString()}")  # while the JVM is there to tell it
    return {name: bytes(body) for name, body in made.getMap().items()}


def _known_classes(jvm: Any, resources: Any, gateway: JavaGateway) -> Any:
    """Spark's classes from its jars, and only Java's own as this JVM has loaded them.

    Janino writes some methods in the order in which a superclass lists its own. A jar has one, a JVM any.
    """
    directories = gateway.new_array(jvm.java.io.File, 1)
    directories[0] = jvm.java.io.File(str(Path(pyspark.__path__[0], "jars")))
    java = jvm.org.codehaus.janino.ClassLoaderIClassLoader(jvm.java.lang.ClassLoader.getPlatformClassLoader())
    jars = resources.JarDirectoriesResourceFinder(directories)
    return jvm.org.codehaus.janino.ResourceFinderIClassLoader(jars, java)


def digest(sources: list[Path]) -> str:
    """Of all that decides how node and connector talk to each other."""
    known = hashlib.sha256()
    for source in sources:
        known.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return known.hexdigest()[:16]


def write_jar(target: Path, version: str, classes: dict[str, bytes]) -> None:
    manifest = f"Manifest-Version: 1.0\r\nImplementation-Title: anabranch\r\nImplementation-Version: {version}\r\n\r\n"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as jar:
        for name, body in [("META-INF/MANIFEST.MF", manifest.encode()), *sorted(classes.items())]:
            entry = zipfile.ZipInfo(name, LONG_AGO)
            entry.create_system = 3  # not the system that it is made on
            entry.external_attr = 0o644 << 16
            jar.writestr(entry, body)


if __name__ == "__main__":
    sys.exit(main())
