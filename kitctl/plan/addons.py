"""What do add-ons bring beside the engine: services with their images, and ports on the host?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kitctl.errors import Exit, KitError
from kitctl.finding import Finding, Severity
from kitctl.kit.addon_images import IMAGES_FILE, AddonImage
from kitctl.kit.near import did_you_mean
from kitctl.kit.overlay import Overlay, PublishBlock, Scope
from kitctl.kit.stack import Serve
from kitctl.plan.types import AddonService, Endpoint, Plan, Request

LOOPBACK_BIND = "127.0.0.1"


def addon_services(
    overlays: Sequence[Overlay], images: Mapping[str, AddonImage], *, on_gpus: bool
) -> tuple[AddonService, ...]:
    """The services of ``overlays`` with their images; what watches GPUs only where the plan has some.

    Raises KitError ``addon-alone``, ``unknown-addon-image`` (exit 2).
    """
    found = []
    for overlay in overlays:
        _require_needed(overlay, overlays)
        for service, name in overlay.block.images.items():
            sees_gpus = service in overlay.block.gpu_services
            if sees_gpus and not on_gpus:
                continue
            if name not in images:
                raise _unknown_image(overlay, service, name, images)
            image = images[name]
            found.append(
                AddonService(name=service, image=image.exact, is_locked=image.is_locked, sees_gpus=sees_gpus)
            )
    return tuple(found)


def _require_needed(overlay: Overlay, overlays: Sequence[Overlay]) -> None:
    names = {one.name for one in overlays}
    lacking = [name for name in overlay.block.needs if name not in names]
    if lacking:
        raise KitError(
            "addon-alone",
            f"the add-on {overlay.name} makes no sense without {' and '.join(lacking)}",
            remedy=" ".join(f"--add {name}" for name in (*lacking, overlay.name)),
            exit_code=Exit.USAGE,
        )


def endpoints(overlays: Sequence[Overlay], serve: Serve, request: Request) -> tuple[Endpoint, ...]:
    """The ports of the services: the user's, else the overlay's own. Raises KitError ``unknown-port`` (exit 2)."""
    blocks = {name: block for overlay in overlays for name, block in overlay.block.publish.items()}
    strange = [name for name in serve.ports if name not in blocks]
    if strange:
        raise KitError(
            "unknown-port",
            f"serve.ports.{strange[0]}: no add-on of this plan has such a port",
            evidence=(did_you_mean(strange[0], list(blocks)),) if blocks else (),
            remedy="name the add-on with --add; 'kitctl overlays --json' lists the ports of each",
            exit_code=Exit.USAGE,
        )
    return tuple(_endpoint(name, block, serve, request) for name, block in blocks.items())


def _endpoint(name: str, block: PublishBlock, serve: Serve, request: Request) -> Endpoint:
    own_port = serve.ports.get(name, block.port)
    return Endpoint(
        name=name,
        service=block.service,
        scope=block.scope,
        bind=request.bind or serve.bind if block.scope is Scope.PUBLIC else LOOPBACK_BIND,
        port=own_port or request.port or serve.port,
        container_port=block.container_port,
    )


def stands_for_engine(found: Sequence[Endpoint]) -> Endpoint | None:
    """The port in the engine's place, ``None`` when the engine publishes its own."""
    return next((one for one in found if one.scope is Scope.ENGINE), None)


def check_public(plan: Plan) -> tuple[Finding, ...]:
    """What a port for clients needs: a key that is checked and a certificate."""
    public = [one for one in plan.endpoints if one.scope is Scope.PUBLIC]
    if not public:
        return (_no_use_of_tls(),) if plan.tls_cert_file or plan.tls_key_file else ()
    found = []
    if plan.api_key_file is None:
        cause = f"the add-on's port {public[0].name} has no API key to check"
        found.append(
            _blocked("gateway-without-key", cause, "give --api-key-file FILE (openssl rand -hex 32 > FILE)")
        )
    if plan.tls_cert_file is None or plan.tls_key_file is None:
        cause = f"the add-on's port {public[0].name} speaks TLS and has no certificate"
        remedy = (
            "give --tls-cert and --tls-key; for a trial: openssl req -x509 -newkey rsa:2048 -nodes -days 30 "
            "-subj /CN=$(hostname) -keyout tls.key -out tls.crt"
        )
        found.append(_blocked("gateway-without-certificate", cause, remedy))
    return tuple(found)


def _no_use_of_tls() -> Finding:
    return Finding(
        code="tls-without-gateway",
        severity=Severity.WARN,
        cause="--tls-cert and --tls-key have no use here: no port of this plan speaks TLS, the engine's is plain HTTP",
        remedy="add --add gateway, or leave both out",
    )


def check_addon_images(plan: Plan, present: Mapping[str, bool]) -> tuple[Finding, ...]:
    """Images of the add-ons' services that are not on the engine, or not pinned. ``present`` by reference; what it
    does not name is not known."""
    found = []
    for service in plan.addon_services:
        if present.get(service.image) is False:
            cause = f"the image {service.image} of the service {service.name} is not on this engine"
            found.append(_blocked("addon-image-missing", cause, f"docker pull {service.image}"))
        if not service.is_locked:
            found.append(_unlocked(service))
    return tuple(found)


def _unlocked(service: AddonService) -> Finding:
    return Finding(
        code="addon-image-unlocked",
        severity=Severity.WARN,
        cause=f"{service.name} runs whatever {service.image} names on this engine: no digest is pinned",
        remedy="kitctl overlays lock, on a machine that reaches the registry",
        where=IMAGES_FILE,
    )


def _blocked(code: str, cause: str, remedy: str) -> Finding:
    return Finding(code=code, severity=Severity.BLOCK, cause=cause, remedy=remedy, where="addons")


def _unknown_image(overlay: Overlay, service: str, name: str, images: Mapping[str, AddonImage]) -> KitError:
    return KitError(
        "unknown-addon-image",
        f"{overlay.source}: x-kitctl.images.{service}: {IMAGES_FILE} has no image {name!r}",
        evidence=(did_you_mean(name, list(images)),) if images else (),
        remedy=f"add it to {IMAGES_FILE}",
        exit_code=Exit.USAGE,
    )
